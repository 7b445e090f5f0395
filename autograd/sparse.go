package autograd

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SinkhornAttention is attention of buckets of queries to their own bucket and to the Top others that a sort net scores highest
// ("Sparse Sinkhorn Attention", arXiv:2002.11296, in the deterministic form of the official code). With R the softmax weight of a
// picked bucket, which its keys and values are multiplied by,
//
//	y = softmax( Q [R₁K₁, …, R_Top·K_Top, K]ᵀ/√head_dim + mask ) [R₁V₁, …, R_Top·V_Top, V]
//
// for rows q, y (n, d) and kv (n, 2d: keys, then values), with the positions in a row's cache (nil for none) before its own.
// Causal buckets pick earlier ones, by summaries of what came before; those of the second half of the heads begin Bucket-1
// positions later, so that what is far in one half is near in the other. Looking ahead there is no cache, and the length of a row
// is a multiple of Bucket.
func (t *Tape) SinkhornAttention(q, kv *tensor.Tensor, p engine.SinkhornParams, o engine.SinkhornOptions, r *engine.Rows,
	caches []*engine.SinkhornCache) *tensor.Tensor {
	d := q.Dim(-1)
	checkRows("SinkhornAttention", r, q, kv)
	checkCaches("SinkhornAttention", r, caches)
	for i := range r.Count() {
		n, cached := r.Len(i), i < len(caches) && caches[i] != nil
		if cached {
			n += caches[i].Q.Len
		}
		checkSinkhorn(q, kv, p, o, d, n, cached)
	}
	return t.engine.SinkhornAttention(q, kv, p, o, r, caches)
}

// checkSinkhorn panics unless SinkhornAttention can take a sequence of n positions.
func checkSinkhorn(q, kv *tensor.Tensor, p engine.SinkhornParams, o engine.SinkhornOptions, d, n int, cached bool) {
	if o.Heads < 1 || o.Bucket < 1 || o.Top < 1 || o.Top > engine.MaxTop || d%o.Heads != 0 ||
		kv.Dim(-1) != 2*d || o.Ahead && (cached || n%o.Bucket != 0) ||
		!o.Ahead && (p.NullK.Len() != d || p.NullV.Len() != d) {
		shapePanic("SinkhornAttention", q, kv, p.NullK, p.NullV)
	}
	if p.Sort != nil {
		columns, candidates := p.Sort.Dim(-1), o.Top+(n+o.Bucket-1)/o.Bucket-1
		if o.Ahead {
			candidates = n / o.Bucket
		}
		if p.Sort.Len() != 2*d*columns || candidates > columns {
			shapePanic("SinkhornAttention: more buckets than the sort net knows", q, p.Sort)
		}
	}
}

// SpAtten is causal softmax attention with the cascade pruning of tokens and heads of "SpAtten: Efficient Sparse Attention
// Architecture with Cascade Token and Head Pruning" (arXiv:2012.09852, §III), along the sequence. Over rows qkv (n, 3·d) as in
// Attention, a position sees the tokens that are left and those of its own block. The importance of a token is the sum of all
// weights that all heads have given it, that of a head the sum of the absolute values of its outputs. After each block the Keep most
// important tokens are left, and one head less while there are more than KeepHeads. What has been pruned is gone: it costs nothing
// any more. The choice has no gradient.
//
// The state of a row, nil for none, is brought from before it to after it.
func (t *Tape) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows, states []*engine.SpAttenState) *tensor.Tensor {
	d := qkv.Dim(-1) / 3
	checkRows("SpAtten", r, qkv)
	checkCaches("SpAtten", r, states)
	if o.Heads < 1 || 3*d != qkv.Dim(-1) || d%o.Heads != 0 || o.Rotary.Dim > d/o.Heads || o.Block < 1 || o.Keep < 0 {
		shapePanic("SpAtten", qkv)
	}
	for _, s := range states {
		if s != nil && s.K.Len() != o.Rows()*d {
			shapePanic("SpAtten", qkv, s.K)
		}
	}
	return t.engine.SpAtten(qkv, o, r, states)
}
