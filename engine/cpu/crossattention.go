package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// CrossAttention is softmax attention to something else than the queries' own sequence: queries q (b, l, d) to all of
// the keys and values kv (b, m, 2·d), a row of which holds a key and then a value, for each head of d/heads
// components:
//
//	y = softmax(Q Kᵀ/√head_dim) V,   y (b, l, d)
//
// The scores are made tile by tile and made again in backward, as in Attention.
func (eng *Engine) CrossAttention(q, kv *tensor.Tensor, heads int) *tensor.Tensor {
	batch, l, d := q.Dim(0), q.Dim(1), q.Dim(2)
	o := crossAttentionOp{q: q, kv: kv, y: eng.like(q), heads: heads, l: l, m: kv.Dim(1), d: d, hd: d / heads}
	o.scale = float32(1 / math.Sqrt(float64(o.hd)))
	o.lse = eng.arena.Floats(batch * heads * l)
	tiles := (l + attentionRows - 1) / attentionRows
	parallel.For(batch*heads*tiles, 1, func(lo, hi int) {
		buf := getFloats(min(l, attentionRows) * o.m)
		defer putFloats(buf)
		for i := lo; i < hi; i++ {
			bh, i0 := i/tiles, i%tiles*attentionRows
			o.forward(*buf, bh, i0, min(l-i0, attentionRows))
		}
	})
	if eng.wants(q, kv) {
		op := take[crossAttentionOp](eng)
		*op = o
		eng.push(op)
	}
	return o.y
}

type crossAttentionOp struct {
	q, kv, y           *tensor.Tensor
	lse                []float32 // (b, heads, l)
	heads, l, m, d, hd int
	scale              float32
}

func (o *crossAttentionOp) Name() string                   { return "CrossAttention" }
func (o *crossAttentionOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }

// queries is the part of x, laid out as q, from query i of a head on; keys and values are parts of x, laid out as kv.
func (o *crossAttentionOp) queries(x []float32, bh, i int) []float32 {
	return x[(bh/o.heads*o.l+i)*o.d+bh%o.heads*o.hd:]
}

func (o *crossAttentionOp) keys(x []float32, bh int) []float32 {
	return x[bh/o.heads*o.m*2*o.d+bh%o.heads*o.hd:]
}

func (o *crossAttentionOp) values(x []float32, bh int) []float32 { return o.keys(x, bh)[o.d:] }

// scores fills p (rows, m) with the softmax weights of the queries from i0 on, given or making their log-sum-exp.
func (o *crossAttentionOp) scores(p []float32, bh, i0, rows int, known bool) {
	q, k := o.queries(o.q.Data(), bh, i0), o.keys(o.kv.Data(), bh)
	kernel.GemmInline(kernel.Product{
		Op: kernel.NT, M: rows, N: o.m, K: o.hd, A: q, LDA: o.d, B: k, LDB: 2 * o.d, C: p, LDC: o.m,
	})
	for r := range rows {
		row := p[r*o.m:][:o.m]
		if lse := &o.lse[bh*o.l+i0+r]; known {
			kernel.SoftmaxAgain(row, o.scale, *lse)
		} else {
			*lse = kernel.Softmax(row, o.scale)
		}
	}
}

func (o *crossAttentionOp) forward(p []float32, bh, i0, rows int) {
	o.scores(p, bh, i0, rows, false)
	y, v := o.queries(o.y.Data(), bh, i0), o.values(o.kv.Data(), bh)
	kernel.GemmInline(kernel.Product{
		Op: kernel.NN, M: rows, N: o.hd, K: o.m, A: p, LDA: o.m, B: v, LDB: 2 * o.d, C: y, LDC: o.d,
	})
}

// Backward: with P the weights and δ_i = Σ_j dy_ij y_ij,
//
//	dV = Pᵀ dY,   dP = dY Vᵀ,   dS = P ⊙ (dP - δ)/√hd,   dQ = dS K,   dK = dSᵀ Q
func (o *crossAttentionOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	if dy == nil {
		return
	}
	dq, dkv := eng.gradOf(o.q), eng.gradOf(o.kv)
	parallel.For(o.q.Dim(0)*o.heads, 1, func(lo, hi int) {
		buf := getFloats(2 * min(o.l, attentionRows) * o.m)
		defer putFloats(buf)
		p, ds := (*buf)[:len(*buf)/2], (*buf)[len(*buf)/2:]
		for bh := lo; bh < hi; bh++ {
			for i0 := 0; i0 < o.l; i0 += attentionRows {
				o.backward(p, ds, dy, dq, dkv, bh, i0, min(o.l-i0, attentionRows))
			}
		}
	})
}

// backward adds to the gradients dq and dkv, nil where none is wanted, what the queries from i0 on give.
func (o *crossAttentionOp) backward(p, ds, dy, dq, dkv []float32, bh, i0, rows int) {
	kv, g, y := o.kv.Data(), o.queries(dy, bh, i0), o.queries(o.y.Data(), bh, i0)
	o.scores(p, bh, i0, rows, true)
	kernel.GemmInline(kernel.Product{
		Op: kernel.NT, M: rows, N: o.m, K: o.hd, A: g, LDA: o.d, B: o.values(kv, bh), LDB: 2 * o.d, C: ds, LDC: o.m,
	})
	for r := range rows {
		delta := kernel.Dot(g[r*o.d:][:o.hd], y[r*o.d:][:o.hd])
		kernel.SoftmaxGrad(ds[r*o.m:][:o.m], p[r*o.m:][:o.m], delta, o.scale)
	}
	if dq != nil {
		to := o.queries(dq, bh, i0)
		kernel.GemmInline(kernel.Product{
			Op: kernel.NN, M: rows, N: o.hd, K: o.m, A: ds, LDA: o.m, B: o.keys(kv, bh), LDB: 2 * o.d,
			C: to, LDC: o.d, Add: true,
		})
	}
	if dkv != nil {
		q := o.queries(o.q.Data(), bh, i0)
		kernel.GemmInline(kernel.Product{
			Op: kernel.TN, M: o.m, N: o.hd, K: rows, A: ds, LDA: o.m, B: q, LDB: o.d,
			C: o.keys(dkv, bh), LDC: 2 * o.d, Add: true,
		})
		kernel.GemmInline(kernel.Product{
			Op: kernel.TN, M: o.m, N: o.hd, K: rows, A: p, LDA: o.m, B: g, LDB: o.d,
			C: o.values(dkv, bh), LDC: 2 * o.d, Add: true,
		})
	}
}
