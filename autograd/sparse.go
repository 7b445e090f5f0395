package autograd

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SinkhornAttention is attention between buckets of positions. A query sees its own bucket, and the Top buckets that a
// sort net scores highest for its bucket ("Sparse Sinkhorn Attention", arXiv:2002.11296, in the deterministic form of
// the official code). R is the softmax weight of a picked bucket, by which its keys and values are multiplied:
//
//	y = softmax( Q [R₁K₁, …, R_Top·K_Top, K]ᵀ/√head_dim + mask ) [R₁V₁, …, R_Top·V_Top, V]
//
// q, y (n, d); kv (n, 2d), keys and then values. A row also sees the positions in its cache (nil for none), and its own
// queries, keys and values are added to it.
//
// Causal buckets pick earlier ones, by summaries of the positions before them. In the second half of the heads buckets
// begin Bucket-1 positions later, so that positions on two sides of a border in one half share a bucket in the other.
// Attention that looks ahead has no caches, and the length of a row is a multiple of Bucket.
func (t *Tape) SinkhornAttention(q, kv *tensor.Tensor, p engine.SinkhornParams, o engine.SinkhornOptions,
	r *engine.Rows, caches []*engine.SinkhornCache) *tensor.Tensor {
	checkRows("SinkhornAttention", r, q, kv)
	checkCaches("SinkhornAttention", r, caches)
	for i := range r.Count() {
		past, cached := 0, i < len(caches) && caches[i] != nil
		if cached {
			c := caches[i]
			checkRowCache("SinkhornAttention", q, r, i, c.Q)
			checkRowCache("SinkhornAttention", kv, r, i, c.KV)
			if past = c.Q.Len; c.KV.Len != past {
				panic(fmt.Sprintf("autograd.SinkhornAttention: row %d has %d queries and %d keys", i, past, c.KV.Len))
			}
		}
		checkSinkhorn(q, kv, p, o, past+r.Len(i), cached)
	}
	return t.engine.SinkhornAttention(q, kv, p, o, r, caches)
}

// checkSinkhorn panics unless SinkhornAttention can take a sequence of n positions.
func checkSinkhorn(q, kv *tensor.Tensor, p engine.SinkhornParams, o engine.SinkhornOptions, n int, cached bool) {
	d := q.Dim(-1)
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

// SpAtten is causal softmax attention over packed projections qkv (n, 3·d) as in Attention, with the cascade pruning of
// tokens and heads of "SpAtten: Efficient Sparse Attention Architecture with Cascade Token and Head Pruning"
// (arXiv:2012.09852, §III), along the sequence. A position sees the tokens that are left and the tokens of its block.
//
// The importance of a token is the sum of all weights that all heads have given it. The importance of a head is the sum
// of the absolute values of its outputs. After each block the Keep most important tokens are left, and one head less
// while there are more than KeepHeads. Pruned tokens and heads do not come back and cost nothing. The choice has no
// gradient.
//
// The state of a row, nil for none, is carried through the row.
func (t *Tape) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows,
	states []*engine.SpAttenState) *tensor.Tensor {
	d := qkv.Dim(-1) / 3
	checkRows("SpAtten", r, qkv)
	checkCaches("SpAtten", r, states)
	if o.Heads < 1 || 3*d != qkv.Dim(-1) || d%o.Heads != 0 || o.Rotary.Dim > d/o.Heads || o.Block < 1 || o.Keep < 0 {
		shapePanic("SpAtten", qkv)
	}
	for _, s := range states {
		if s == nil {
			continue
		}
		size := o.Rows() * d
		if s.K.Len() != size || s.V.Len() != size || s.Importance.Len() != o.Rows() || s.Heads.Len() != o.Heads ||
			s.Position.Len() != 2 || o.Progressive > 0 && (s.Low == nil || s.Low.Len() != size) {
			shapePanic("SpAtten", qkv, s.K, s.V, s.Importance, s.Heads, s.Position, s.Low)
		}
	}
	return t.engine.SpAtten(qkv, o, r, states)
}
