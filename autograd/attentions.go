package autograd

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Attention computes softmax attention over packed projections qkv (n, (heads + 2·kv_heads)·head_dim), with the heads
// of queries, keys and values side by side:
//
//	y = softmax(scale·Q Kᵀ + mask) V,   y (n, heads·head_dim)
//
// where several heads of queries may share a head of keys and values (arXiv:2305.13245). Each row attends separately to
// its own positions and to those in its cache (nil for none), which come before. With KeysAsValues, V is K, and qkv is
// (n, (heads + kv_heads)·head_dim). Attention is causal unless the options let it look ahead. Scores are computed tile
// by tile, and again in backward from their log-sum-exp (as in FlashAttention, arXiv:2205.14135), so no L×L matrix is
// stored. Keys that no query of a tile sees cost nothing. Rounded keys and values carry no gradient.
func (t *Tape) Attention(qkv *tensor.Tensor, r *engine.Rows, caches []*engine.KVCache,
	o engine.AttentionOptions) *tensor.Tensor {
	checkRows("Attention", r, qkv)
	checkCaches("Attention", r, caches)
	cached, rounded := false, false
	for i, c := range caches {
		if c != nil {
			cached, rounded = true, rounded || c.Rounded != nil
			if c.KeysAsValues != o.KeysAsValues {
				panic(fmt.Sprintf("autograd.Attention: row %d has a cache whose values are the keys: %t, want %t", i,
					c.KeysAsValues, o.KeysAsValues))
			}
			if r.Start(i) < c.Len {
				panic(fmt.Sprintf("autograd.Attention: row %d starts at position %d after %d others",
					i, r.Start(i), c.Len))
			}
		}
	}
	if !o.Fits(qkv.Dim(-1)) || !o.Valid(cached) || rounded && t.wants(qkv) {
		shapePanic("Attention", qkv)
	}
	var drop uint64
	if r.Trains() && o.Dropout > 0 {
		drop = t.drop()
	}
	return t.engine.Attention(qkv, r, caches, o, drop)
}

// checkCaches panics unless there are as many caches as rows, or none.
func checkCaches[T any](op string, r *engine.Rows, caches []*T) {
	if len(caches) != 0 && len(caches) != r.Count() {
		panic(fmt.Sprintf("autograd.%s: %d caches for %d rows", op, len(caches), r.Count()))
	}
}

// CrossAttention computes softmax attention to another sequence: the queries q (n, d) in row i of rq attend to all keys
// and values kv (m, 2·d) in row i of rkv. A position of kv holds the keys of all heads, d/heads components each, and
// then the values:
//
//	y = softmax(Q Kᵀ/√head_dim) V,   y (n, d)
func (t *Tape) CrossAttention(q, kv *tensor.Tensor, heads int, rq, rkv *engine.Rows) *tensor.Tensor {
	d := q.Dim(-1)
	checkRows("CrossAttention", rq, q)
	checkRows("CrossAttention", rkv, kv)
	if heads < 1 || d%heads != 0 || kv.Dim(-1) != 2*d || rq.Count() != rkv.Count() {
		shapePanic("CrossAttention", q, kv)
	}
	return t.engine.CrossAttention(q, kv, heads, rq, rkv)
}

// Rotate applies the rotary embedding to each head of x (n, d), at its position in the sequence, as Attention does to
// queries and keys. It panics with xPos, which also scales.
func (t *Tape) Rotate(x *tensor.Tensor, heads int, rot engine.Rotary, r *engine.Rows) *tensor.Tensor {
	d := x.Dim(-1)
	checkRows("Rotate", r, x)
	if heads < 1 || d%heads != 0 || rot.Dim%2 != 0 || rot.Dim > d/heads || rot.XPos != 0 {
		shapePanic("Rotate", x)
	}
	return t.engine.Rotate(x, heads, rot, r)
}

// LinearAttention computes causal attention with φ(q)·φ(k) in place of exp(q·k), with q, k (n, heads·e) and v (n,
// heads·m):
//
//	y_t = Σ_{s≤t} (φ(q_t)·φ(k_s)) v_s / (Σ_{s≤t} φ(q_t)·φ(k_s) + eps)
//
// (Transformers are RNNs, arXiv:2006.16236, §3). The slots of a row hold the sums S (heads, e, m) of φ(k) vᵀ and Z
// (heads, e) of φ(k) over the positions before the row.
func (t *Tape) LinearAttention(q, k, v *tensor.Tensor, o engine.LinearOptions, r *engine.Rows,
	s, z engine.Slots) *tensor.Tensor {
	checkRows("LinearAttention", r, q, k, v)
	if o.Heads < 1 || !q.SameShape(k) || q.Dim(-1)%o.Heads != 0 || v.Dim(-1)%o.Heads != 0 || len(s) != len(z) {
		shapePanic("LinearAttention", q, k, v)
	}
	checkSlots("LinearAttention", r, s, q.Dim(-1)*(v.Dim(-1)/o.Heads))
	checkSlots("LinearAttention", r, z, q.Dim(-1))
	return t.engine.LinearAttention(q, k, v, o, r, s, z)
}

// SquaredReLUAttention computes the causal attention of the gated attention unit (arXiv:2202.10447, §3.1). The
// positions of a row are counted from the first in its caches; a row without caches starts at 0. Position i has a query
// q[i] (s). It sees the keys k[j] (s) and the values v[j] (e) of positions j ≤ i:
//
//	y[i] = Σ_j relu( q[i]·k[j]/√s + bias[min(i-j, m-1)] )² v[j] / (i+1)
//
// with q, k (n, s); v, y (n, e); and bias (m), one for each distance. Dividing by i+1, the number of positions seen,
// replaces the paper's division by the length. The row's keys and values are added to its caches (nil for none).
func (t *Tape) SquaredReLUAttention(q, k, v, bias *tensor.Tensor, r *engine.Rows,
	keys, values []*engine.RowCache) *tensor.Tensor {
	checkRows("SquaredReLUAttention", r, q, k, v)
	checkCaches("SquaredReLUAttention", r, keys)
	if !q.SameShape(k) || len(keys) != len(values) {
		shapePanic("SquaredReLUAttention", q, k, v, bias)
	}
	checkRowCaches("SquaredReLUAttention", k, r, keys)
	checkRowCaches("SquaredReLUAttention", v, r, values)
	for i, c := range keys {
		if values[i].Past() != c.Past() {
			panic(fmt.Sprintf("autograd.SquaredReLUAttention: row %d has %d keys and %d values before it",
				i, c.Past(), values[i].Past()))
		}
	}
	return t.engine.SquaredReLUAttention(q, k, v, bias, r, keys, values)
}

// SpatialMix computes the causal projection along the sequence of gMLP's gate (arXiv:2105.08050). With positions i and
// j of a sequence,
//
//	y[i] = Σ_{j≤i} W[i, j]·x[j] + bias[i]
//
// with W (L, L), bias (L), and x, y (n, d). The sum is over the positions in the row's cache (nil for none) and the
// row's own, which are added to the cache. No row may end after position L. The upper triangle of W is not used.
func (t *Tape) SpatialMix(x, w, bias *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) *tensor.Tensor {
	n := bias.Len()
	checkRows("SpatialMix", r, x)
	checkCaches("SpatialMix", r, caches)
	checkRowCaches("SpatialMix", x, r, caches)
	for i := range r.Count() {
		if w.Len() != n*n || r.Start(i)+r.Len(i) > n {
			shapePanic("SpatialMix", x, w, bias)
		}
	}
	return t.engine.SpatialMix(x, w, bias, r, caches)
}

// checkRowCaches calls checkRowCache for the caches of all rows.
func checkRowCaches(op string, x *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) {
	for i, c := range caches {
		checkRowCache(op, x, r, i, c)
	}
}

// checkRowCache panics unless the cache of row i is as wide as x and has no more positions than come before the row.
func checkRowCache(op string, x *tensor.Tensor, r *engine.Rows, i int, c *engine.RowCache) {
	if c.Past() > r.Start(i) {
		panic(fmt.Sprintf("autograd.%s: row %d starts at position %d after %d others", op, i, r.Start(i), c.Past()))
	}
	if d := c.Width(); d > 0 && d != x.Dim(-1) {
		panic(fmt.Sprintf("autograd.%s: the cache of row %d is %d wide, want %d as in %v", op, i, d, x.Dim(-1), x))
	}
}
