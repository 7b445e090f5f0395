package autograd

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// BucketAttention computes attention between buckets of positions. A query sees its own bucket, and the Top buckets
// that a sort net scores highest for its bucket ("Sparse Sinkhorn Attention", arXiv:2002.11296, in the deterministic
// form of the official code). The keys and values of a chosen bucket are multiplied by its softmax weight R:
//
//	y = softmax( Q [R₁K₁, …, R_Top·K_Top, K]ᵀ/√head_dim + mask ) [R₁V₁, …, R_Top·V_Top, V]
//
// with q, y (n, d), and kv (n, 2d), which holds keys and then values. A row also sees the positions in its cache (nil
// for none), and its own queries, keys and values are added to the cache.
//
// Causal buckets choose among earlier ones, by summaries of the positions before them. In the second half of the heads,
// buckets begin Bucket-1 positions later, so that positions on two sides of a border in one half share a bucket in the
// other. Attention that looks ahead has no caches, and the length of a row is a multiple of Bucket.
func (t *Tape) BucketAttention(q, kv *tensor.Tensor, p engine.BucketParams, o engine.BucketOptions,
	r *engine.Rows, caches []*engine.BucketCache) *tensor.Tensor {
	checkRows("BucketAttention", r, q, kv)
	checkCaches("BucketAttention", r, caches)
	for i := range r.Count() {
		past, cached := 0, i < len(caches) && caches[i] != nil
		if cached {
			c := caches[i]
			checkRowCache("BucketAttention", q, r, i, c.Q)
			checkRowCache("BucketAttention", kv, r, i, c.KV)
			if past = c.Q.Len; c.KV.Len != past {
				panic(fmt.Sprintf("autograd.BucketAttention: row %d has %d queries and %d keys", i, past, c.KV.Len))
			}
		}
		checkBuckets(q, kv, p, o, past+r.Len(i), cached)
	}
	return t.engine.BucketAttention(q, kv, p, o, r, caches)
}

// checkBuckets panics unless BucketAttention can take a sequence of n positions.
func checkBuckets(q, kv *tensor.Tensor, p engine.BucketParams, o engine.BucketOptions, n int, cached bool) {
	d := q.Dim(-1)
	if o.Heads < 1 || o.Bucket < 1 || o.Top < 1 || o.Top > engine.MaxTop || d%o.Heads != 0 ||
		kv.Dim(-1) != 2*d || o.Ahead && (cached || n%o.Bucket != 0) ||
		!o.Ahead && (p.NullK.Len() != d || p.NullV.Len() != d) {
		shapePanic("BucketAttention", q, kv, p.NullK, p.NullV)
	}
	if p.Sort != nil {
		columns, candidates := p.Sort.Dim(-1), o.Top+(n+o.Bucket-1)/o.Bucket-1
		if o.Ahead {
			candidates = n / o.Bucket
		}
		if p.Sort.Len() != 2*d*columns || candidates > columns {
			shapePanic("BucketAttention: more buckets than the sort net knows", q, p.Sort)
		}
	}
}

// SinkhornBalance computes weights P (b, heads·b) from scores x (b, heads·n), which are, head by head, those of blocks
// v for blocks u, n ≥ b. It uses Sinkhorn's iterations on logarithms ("Sparse Sinkhorn Attention", arXiv:2002.11296,
// §3.2):
//
//	F ← x;   Rounds times:  F[u,v] ← F[u,v] - log Σ_j e^F[u,j],  then  F[u,v] ← F[u,v] - log Σ_i e^F[i,v];   P = e^F
//
// P tends to a doubly stochastic matrix, a soft permutation. If causal, block u sees only blocks v < u, so P[u,v] is 0
// for others, and the sum over i is replaced by that over v < i ≤ u, so that later blocks have no influence.
func (t *Tape) SinkhornBalance(x *tensor.Tensor, o engine.BalanceOptions) *tensor.Tensor {
	if o.Heads < 1 || o.Rounds < 0 || x.Dim(-1)%o.Heads != 0 || x.Rows() > x.Dim(-1)/o.Heads {
		shapePanic("SinkhornBalance", x)
	}
	return t.engine.SinkhornBalance(x, o)
}

// MixBlocks mixes the n/block blocks of positions of x (n, d), head by head, with weights w (m, heads·k), where k is
// that number or more. Weights beyond the number of blocks are ignored. y is (m·block, d):
//
//	y[u·block+j, h·e+c] = Σ_v w[u, h·k+v]·x[v·block+j, h·e+c],   e = d/heads
func (t *Tape) MixBlocks(x, w *tensor.Tensor, heads, block int) *tensor.Tensor {
	if heads < 1 || block < 1 || x.Dim(-1)%heads != 0 || w.Dim(-1)%heads != 0 || x.Rows()%block != 0 ||
		x.Rows()/block > w.Dim(-1)/heads {
		shapePanic("MixBlocks", x, w)
	}
	return t.engine.MixBlocks(x, w, heads, block)
}

// SpAtten computes causal softmax attention over packed projections qkv (n, 3·d) as in Attention, with the cascade
// pruning of tokens and heads of "SpAtten: Efficient Sparse Attention Architecture with Cascade Token and Head Pruning"
// (arXiv:2012.09852, §III), along the sequence. A position sees the remaining tokens and the tokens of its block.
//
// The importance of a token is the sum of all weights that all heads have given it. The importance of a head is the sum
// of the absolute values of its outputs. After each block the Keep most important tokens remain, and one head is
// dropped as long as there are more than KeepHeads. Pruned tokens and heads do not come back and cost nothing. The
// choice has no gradient. With Values, a query reads only the values of its largest weights.
//
// With Cascade, tokens and heads that the layer before (Above) has pruned are pruned here, too, and importance is
// summed over the layers so far.
//
// The state of a row is updated along the row. It may be nil.
func (t *Tape) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows,
	states []*engine.SpAttenState) *tensor.Tensor {
	d := qkv.Dim(-1) / 3
	checkRows("SpAtten", r, qkv)
	checkCaches("SpAtten", r, states)
	if o.Heads < 1 || 3*d != qkv.Dim(-1) || d%o.Heads != 0 || o.Rotary.Dim > d/o.Heads || o.Block < 1 || o.Keep < 0 {
		shapePanic("SpAtten", qkv)
	}
	if o.Above != nil && len(o.Above) != r.Count() || o.Below != nil && len(o.Below) != r.Count() {
		panic(fmt.Sprintf("autograd.SpAtten: what is pruned of %d and %d rows, want %d", len(o.Above), len(o.Below),
			r.Count()))
	}
	for _, s := range states {
		if s == nil {
			continue
		}
		size := o.Rows() * d
		if s.K.Len() != size || s.V.Len() != size || s.Importance.Len() != o.Rows() || s.Heads.Len() != o.Heads ||
			s.Position.Len() != 2 || o.Progressive > 0 && (s.Low == nil || s.Low.Len() != size) ||
			o.Cascade && (s.Places == nil || s.Places.Len() != o.Rows()) {
			shapePanic("SpAtten", qkv, s.K, s.V, s.Importance, s.Heads, s.Position, s.Low)
		}
	}
	return t.engine.SpAtten(qkv, o, r, states)
}
