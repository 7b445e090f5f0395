package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

type spattenOp struct {
	spatten
	grads []spattenGrads
}

// Backward computes the backward of Attention for every piece. It gathers the keys of a piece again by their origins.
func (o *spattenOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	if dy == nil { // only states were used
		dy = eng.grad(o.y)
	}
	dqkv := eng.gradOf(o.qkv)
	o.grads = resize(o.grads, len(o.each))
	for i := range o.each {
		w := &o.each[i]
		o.grads[i] = spattenGrads{dy: dy, dqkv: dqkv, pastK: eng.gradOf(w.before.K), pastV: eng.gradOf(w.before.V),
			nextK: w.after.K.Grad(), nextV: w.after.V.Grad()}
	}
	parallel.For(len(o.each)*o.Heads, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			o.backward(&o.grads[i/o.Heads], &o.each[i/o.Heads], i%o.Heads)
		}
	})
}

// spattenGrads holds the gradients of a row, each nil if it is not wanted or nothing has used the tensor.
type spattenGrads struct{ dy, dqkv, pastK, pastV, nextK, nextV []float32 }

// backward runs backward through head h of row w.
func (o *spattenOp) backward(g *spattenGrads, w *spattenRow, h int) {
	hd, most, d := o.hd, o.Rows(), o.Heads*o.hd
	buf := getFloats((w.l + 2*(most+w.l)) * hd)
	defer putFloats(buf)
	clear(*buf)
	dq, dk, dv := (*buf)[:w.l*hd], (*buf)[w.l*hd:][:(most+w.l)*hd], (*buf)[(2*w.l+most)*hd:]
	last := len(w.pieces) - 1
	for _, p := range w.pieces[:last] {
		if !p.pruned[h] {
			o.backwardPiece(g.dy, dq, dk, dv, w, h, p)
		}
	}
	for row, from := range w.pieces[last].origins { // the state after the row
		at := (h*most + row) * hd
		if g.nextK != nil {
			kernel.Add(dk[int(from)*hd:][:hd], g.nextK[at:])
		}
		if g.nextV != nil {
			kernel.Add(dv[int(from)*hd:][:hd], g.nextV[at:])
		}
	}
	addTo(g.pastK, dk[:most*hd], h)
	addTo(g.pastV, dv[:most*hd], h)
	if g.dqkv == nil {
		return
	}
	start := positionOf(&w.after) - w.l
	for i := range w.l {
		row := g.dqkv[(w.from+i)*3*d+h*hd:]
		turnQ, turnK := turns(o.Rotary, start+i)
		q, k := dq[i*hd:][:hd], dk[(most+i)*hd:][:hd]
		turnQ.transposed(q)
		turnK.transposed(k)
		kernel.Add(row[:hd], q)
		kernel.Add(row[d:][:hd], k)
		kernel.Add(row[2*d:][:hd], dv[(most+i)*hd:])
	}
}

// backwardPiece adds to dq (l, head_dim), and to dk and dv, whose rows are numbered by origins.
func (o *spattenOp) backwardPiece(dy, dq, dk, dv []float32, w *spattenRow, h int, piece spattenPiece) {
	hd, most, d, columns, rows := o.hd, o.Rows(), o.Heads*o.hd, len(piece.origins), piece.rows
	size := rows * columns
	buf := getFloats(2*size + 4*columns*hd)
	defer putFloats(buf)
	p, ds, rest := (*buf)[:size], (*buf)[size:2*size], (*buf)[2*size:]
	k, v, gk, gv, _ := split5(rest, columns*hd, columns*hd, columns*hd, columns*hd, 0)
	for row, from := range piece.origins {
		keys, values, at := o.k, o.v, o.place(w, h, int(from)-most)
		if int(from) < most {
			keys, values, at = w.past, w.before.V, (h*most+int(from))*hd
		}
		copy(k[row*hd:][:hd], keys.Data()[at:])
		copy(v[row*hd:][:hd], values.Data()[at:])
	}
	at := o.out(w, h, piece.i0)
	out, g, q := o.y.Data()[at:], dy[at:], o.q.Data()[o.place(w, h, piece.i0):]
	gemm := o.precision.GemmInline

	o.weights(p, w, h, piece.i0, rows, k, nil, true)
	gemm(kernel.Product{Op: kernel.NT, M: rows, N: columns, K: hd, A: g, LDA: d, B: v, LDB: hd, C: ds, LDC: columns})
	for r := range rows {
		delta := kernel.Dot(g[r*d:][:hd], out[r*d:][:hd])
		reads := o.reads(p[r*columns:][:columns-rows+r+1])
		drop(ds[r*columns:], reads)
		kernel.SoftmaxGrad(ds[r*columns:][:columns], p[r*columns:][:columns], delta, o.scale)
		drop(p[r*columns:], reads)
	}
	gemm(kernel.Product{Op: kernel.NN, M: rows, N: hd, K: columns, A: ds, LDA: columns, B: k, LDB: hd,
		C: dq[piece.i0*hd:], LDC: hd})
	gemm(kernel.Product{Op: kernel.TN, M: columns, N: hd, K: rows, A: ds, LDA: columns, B: q, LDB: hd, C: gk, LDC: hd})
	gemm(kernel.Product{Op: kernel.TN, M: columns, N: hd, K: rows, A: p, LDA: columns, B: g, LDB: d, C: gv, LDC: hd})
	for row, to := range piece.origins {
		kernel.Add(dk[int(to)*hd:][:hd], gk[row*hd:])
		kernel.Add(dv[int(to)*hd:][:hd], gv[row*hd:])
	}
}
