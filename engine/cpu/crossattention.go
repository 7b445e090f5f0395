package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// CrossAttention computes scores in tiles of 64 queries by all keys of a row, and again in backward, as Attention does.
func (eng *Engine) CrossAttention(q, kv *tensor.Tensor, heads int, rq, rkv *engine.Rows) *tensor.Tensor {
	d := q.Dim(-1)
	op := take[crossAttentionOp](eng)
	*op = crossAttentionOp{q: q, kv: kv, y: eng.like(q), rq: rq, rkv: rkv, heads: heads, d: d, hd: d / heads,
		work: op.work}
	op.scale = float32(1 / math.Sqrt(float64(op.hd)))
	op.lse = eng.arena.Floats(heads * rq.Total())
	op.work.clear()
	for i := range rq.Count() {
		op.work.add(heads * op.tiles(i))
	}
	op.work.each(1, func(i, piece int) {
		t := op.tile(i, piece/op.tiles(i), piece%op.tiles(i))
		buf := getFloats(t.n * t.m)
		defer putFloats(buf)
		op.scores(*buf, &t, false)
		v, y := op.values(kv.Data(), &t), op.queries(op.y.Data(), &t)
		kernel.GemmInline(kernel.Product{
			Op: kernel.NN, M: t.n, N: op.hd, K: t.m, A: *buf, LDA: t.m, B: v, LDB: 2 * d, C: y, LDC: d,
		})
	})
	if eng.wants(q, kv) {
		eng.push("CrossAttention", op, op.y)
	}
	return op.y
}

type crossAttentionOp struct {
	q, kv, y     *tensor.Tensor
	rq, rkv      *engine.Rows
	lse          []float32 // of each row (heads, l)
	heads, d, hd int
	scale        float32
	work         work
}

// crossTile is a tile of n queries of a head of a row, from i0 on, by all m keys of the row.
type crossTile struct{ row, head, i0, n, m int }

// tiles returns the number of tiles of each head of a row.
func (o *crossAttentionOp) tiles(row int) int {
	return (o.rq.Len(row) + attentionRows - 1) / attentionRows
}

func (o *crossAttentionOp) tile(row, head, i int) crossTile {
	i0 := i * attentionRows
	return crossTile{row, head, i0, min(attentionRows, o.rq.Len(row)-i0), o.rkv.Len(row)}
}

// queries returns x from the tile's first query on, for an x laid out as q. keys and values do the same for an x laid
// out as kv.
func (o *crossAttentionOp) queries(x []float32, t *crossTile) []float32 {
	return x[(o.rq.From(t.row)+t.i0)*o.d+t.head*o.hd:]
}

func (o *crossAttentionOp) keys(x []float32, t *crossTile) []float32 {
	return x[o.rkv.From(t.row)*2*o.d+t.head*o.hd:]
}

func (o *crossAttentionOp) values(x []float32, t *crossTile) []float32 { return o.keys(x, t)[o.d:] }

// scores fills p (n, m) with the softmax weights of a tile. Their log-sum-exp is an input if known is true, else a
// result.
func (o *crossAttentionOp) scores(p []float32, t *crossTile, known bool) {
	q, k := o.queries(o.q.Data(), t), o.keys(o.kv.Data(), t)
	kernel.GemmInline(kernel.Product{Op: kernel.NT, M: t.n, N: t.m, K: o.hd, A: q, LDA: o.d, B: k, LDB: 2 * o.d,
		C: p, LDC: t.m})
	lse := o.lse[o.rq.From(t.row)*o.heads+t.head*o.rq.Len(t.row)+t.i0:]
	for r := range t.n {
		if row := p[r*t.m:][:t.m]; known {
			kernel.SoftmaxAgain(row, o.scale, lse[r])
		} else {
			lse[r] = kernel.Softmax(row, o.scale)
		}
	}
}

// Backward computes, with P the weights and δ_i = Σ_j dy_ij y_ij,
//
//	dV = Pᵀ dY,   dP = dY Vᵀ,   dS = P ⊙ (dP - δ)/√hd,   dQ = dS K,   dK = dSᵀ Q
func (o *crossAttentionOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	dq, dkv := eng.gradOf(o.q), eng.gradOf(o.kv)
	o.work.clear()
	for range o.rq.Count() {
		o.work.add(o.heads)
	}
	o.work.each(1, func(row, head int) {
		buf := getFloats(2 * min(o.rq.Len(row), attentionRows) * o.rkv.Len(row))
		defer putFloats(buf)
		p, ds := (*buf)[:len(*buf)/2], (*buf)[len(*buf)/2:]
		for i := range o.tiles(row) {
			t := o.tile(row, head, i)
			o.backward(p, ds, dy, dq, dkv, &t)
		}
	})
}

// backward adds a tile's part to the gradients dq and dkv, each nil if it is not wanted.
func (o *crossAttentionOp) backward(p, ds, dy, dq, dkv []float32, t *crossTile) {
	kv, g, y := o.kv.Data(), o.queries(dy, t), o.queries(o.y.Data(), t)
	o.scores(p, t, true)
	kernel.GemmInline(kernel.Product{Op: kernel.NT, M: t.n, N: t.m, K: o.hd, A: g, LDA: o.d,
		B: o.values(kv, t), LDB: 2 * o.d, C: ds, LDC: t.m})
	for r := range t.n {
		delta := kernel.Dot(g[r*o.d:][:o.hd], y[r*o.d:][:o.hd])
		kernel.SoftmaxGrad(ds[r*t.m:][:t.m], p[r*t.m:][:t.m], delta, o.scale)
	}
	if dq != nil {
		kernel.GemmInline(kernel.Product{Op: kernel.NN, M: t.n, N: o.hd, K: t.m, A: ds, LDA: t.m,
			B: o.keys(kv, t), LDB: 2 * o.d, C: o.queries(dq, t), LDC: o.d, Add: true})
	}
	if dkv != nil {
		q := o.queries(o.q.Data(), t)
		kernel.GemmInline(kernel.Product{Op: kernel.TN, M: t.m, N: o.hd, K: t.n, A: ds, LDA: t.m, B: q, LDB: o.d,
			C: o.keys(dkv, t), LDC: 2 * o.d, Add: true})
		kernel.GemmInline(kernel.Product{Op: kernel.TN, M: t.m, N: o.hd, K: t.n, A: p, LDA: t.m, B: g, LDB: o.d,
			C: o.values(dkv, t), LDC: 2 * o.d, Add: true})
	}
}
