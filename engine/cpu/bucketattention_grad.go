package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

type bucketOp struct {
	bucketed
	caches [2][]*engine.RowCache // memory for lists of caches of queries, and of keys and values
}

// Backward computes, for every bucket, the backward of Attention, with S = R·(q·k) the scores of a run and R·P the
// weights of its values:
//
//	dR = Σ dS ⊙ (q·k) + Σ P ⊙ (dY Vᵀ),   dP = R·dY Vᵀ,   dV = R·Pᵀ dY
//
// and then goes back through the sort net. A task is one head of all rows, which add to its sort net in order.
func (o *bucketOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	dsort, dnk, dnv := eng.gradOf(o.Sort), eng.gradOf(o.NullK), eng.gradOf(o.NullV)
	own, dq, dkv := eng.gradOf(o.q.x), o.q.grads(eng), o.kv.grads(eng)
	parallel.For(o.Heads, 1, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			for i := range o.rows.Count() {
				g := o.head(i, h)
				at, d := h*o.hd, g.step
				g.gradients = headGrads{own: own, q: from(dq[i], at), k: from(dkv[i], at), v: from(dkv[i], d+at)}
				g.sort()
				var dw []float32
				if dsort != nil {
					dw = g.net(dsort)
				}
				g.backward(dy, dw, part(dnk, h, o.hd), part(dnv, h, o.hd))
				g.done()
			}
		}
	})
}

// from returns x[at:], or nil if x is nil.
func from(x []float32, at int) []float32 {
	if x == nil {
		return nil
	}
	return x[at:]
}

// part returns x[i·n:][:n], or nil if x is nil.
func part(x []float32, i, n int) []float32 {
	if x == nil {
		return nil
	}
	return x[i*n:][:n]
}

// backward adds to the head's gradients. dw, dnullK and dnullV are nil if they are not wanted.
func (g *bucketHead) backward(dy, dw, dnullK, dnullV []float32) {
	buf := getFloats(g.count*g.Top + 2*g.Bucket*g.hd)
	defer putFloats(buf)
	dr, nulls := (*buf)[:g.count*g.Top], (*buf)[g.count*g.Top:]
	clear(*buf)
	g.each(func(u int, w *queries) {
		var drs []float32
		if u >= g.from {
			drs = dr[u*g.Top:][:g.Top]
			picks := g.picksOf(u)
			for i := range w.runs {
				if r := &w.runs[i]; r.pick >= 0 && picks[r.pick].v < 0 {
					r.dk, r.dv = nulls[:g.Bucket*g.hd], nulls[g.Bucket*g.hd:]
				}
			}
		}
		g.backwardRows(dy, drs, w)
	})
	for i := 0; i < g.Bucket*g.hd; i += g.hd {
		if dnullK != nil {
			kernel.Add(dnullK, nulls[i:])
		}
		if dnullV != nil {
			kernel.Add(dnullV, nulls[g.Bucket*g.hd+i:])
		}
	}
	g.sortGrad(dr, dw)
}

// backwardRows is the backward pass of the queries w. It also adds to the gradients dr of their picks' weights.
func (g *bucketHead) backwardRows(dy, dr []float32, w *queries) {
	size := w.rows * w.columns
	buf := getFloats(3 * size)
	defer putFloats(buf)
	raw, p, ds := (*buf)[:size], (*buf)[size:2*size], (*buf)[2*size:]
	q, out, in := g.own(g.q.x.Data(), w.at), g.own(g.y.Data(), w.at), g.own(dy, w.at)
	var dq []float32
	if g.gradients.own != nil {
		dq = g.own(g.gradients.own, w.at)
	}
	gemm := g.precision.GemmInline

	g.raw(raw, w)
	copy(p, raw)
	w.weighColumns(p)
	g.softmax(p, w, true)
	at := 0
	for _, r := range w.runs {
		gemm(kernel.Product{Op: kernel.NT, M: w.rows, N: r.n, K: g.hd, A: in, LDA: g.step, B: r.v, LDB: r.step,
			C: ds[at:], LDC: w.columns})
		at += r.n
	}
	w.dots(dr, p, ds)
	w.weighColumns(ds)
	for i := range w.rows {
		delta := kernel.Dot(in[i*g.step:][:g.hd], out[i*g.step:])
		kernel.SoftmaxGrad(ds[i*w.columns:][:w.columns], p[i*w.columns:][:w.columns], delta, g.scale)
	}
	w.dots(dr, raw, ds)
	w.weighColumns(ds)
	w.weighColumns(p)
	at = 0
	for _, r := range w.runs {
		if dq != nil {
			gemm(kernel.Product{Op: kernel.NN, M: w.rows, N: g.hd, K: r.n, A: ds[at:], LDA: w.columns,
				B: r.k, LDB: r.step, C: dq, LDC: g.step, Add: true})
		}
		if r.dk != nil {
			gemm(kernel.Product{Op: kernel.TN, M: r.n, N: g.hd, K: w.rows, A: ds[at:], LDA: w.columns,
				B: q, LDB: g.step, C: r.dk, LDC: r.step, Add: true})
			gemm(kernel.Product{Op: kernel.TN, M: r.n, N: g.hd, K: w.rows, A: p[at:], LDA: w.columns,
				B: in, LDB: g.step, C: r.dv, LDC: r.step, Add: true})
		}
		at += r.n
	}
}

// dots adds Σ x ⊙ y over the columns of each picked run to dr.
func (w *queries) dots(dr, x, y []float32) {
	at := 0
	for _, r := range w.runs {
		if r.pick < 0 {
			return
		}
		for j := range w.rows {
			dr[r.pick] += kernel.Dot(x[j*w.columns+at:][:r.n], y[j*w.columns+at:])
		}
		at += r.n
	}
}
