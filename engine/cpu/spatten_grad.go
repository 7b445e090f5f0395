package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

type spattenOp struct{ spatten }

func (o *spattenOp) Name() string { return "SpAtten" }

func (o *spattenOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	f(o.after.K)
	f(o.after.V)
}

// Backward is that of Attention for every piece, whose keys are gathered again from where they came.
func (o *spattenOp) Backward(eng *Engine) {
	g := spattenGrads{dy: o.y.Grad(), dqkv: eng.gradOf(o.qkv), pastK: eng.gradOf(o.before.K), pastV: eng.gradOf(o.before.V),
		nextK: o.after.K.Grad(), nextV: o.after.V.Grad()}
	if g.dy == nil { // only the state was used
		g.dy = eng.grad(o.y)
	}
	parallel.For(o.batch*o.Heads, 1, func(lo, hi int) {
		for bh := lo; bh < hi; bh++ {
			o.backward(&g, bh)
		}
	})
}

// spattenGrads are gradients, nil where there are none or none are wanted.
type spattenGrads struct{ dy, dqkv, pastK, pastV, nextK, nextV []float32 }

func (o *spattenOp) backward(g *spattenGrads, bh int) {
	hd, most := o.hd, o.Rows()
	b, h := bh/o.Heads, bh%o.Heads
	buf := getFloats((o.l + 2*(most+o.l)) * hd)
	defer putFloats(buf)
	clear(*buf)
	dq, dk, dv := (*buf)[:o.l*hd], (*buf)[o.l*hd:][:(most+o.l)*hd], (*buf)[(2*o.l+most)*hd:]
	pieces := o.pieces[b]
	for _, p := range pieces[:len(pieces)-1] {
		if !p.pruned[h] {
			o.backwardPiece(g.dy, dq, dk, dv, bh, p)
		}
	}
	for row, from := range pieces[len(pieces)-1].origins { // the state after the chunk
		at := (bh*most + row) * hd
		if g.nextK != nil {
			kernel.Add(dk[int(from)*hd:][:hd], g.nextK[at:])
		}
		if g.nextV != nil {
			kernel.Add(dv[int(from)*hd:][:hd], g.nextV[at:])
		}
	}
	addTo(g.pastK, dk[:most*hd], bh)
	addTo(g.pastV, dv[:most*hd], bh)
	if g.dqkv == nil {
		return
	}
	d := o.Heads * hd
	start := positionOf(&o.after, b) - o.l
	for i := range o.l {
		row := g.dqkv[(b*o.l+i)*3*d+h*hd:]
		turnQ, turnK := turns(o.Rotary, start+i)
		q, k := dq[i*hd:][:hd], dk[(most+i)*hd:][:hd]
		turnQ.transposed(q)
		turnK.transposed(k)
		kernel.Add(row[:hd], q)
		kernel.Add(row[d:][:hd], k)
		kernel.Add(row[2*d:][:hd], dv[(most+i)*hd:])
	}
}

// backwardPiece adds to dq (l, head_dim) and to dk and dv, over the places that origins count.
func (o *spattenOp) backwardPiece(dy, dq, dk, dv []float32, bh int, p spattenPiece) {
	hd, d, columns := o.hd, o.Heads*o.hd, len(p.origins)
	size := p.rows * columns
	buf := getFloats(2*size + 4*columns*hd)
	defer putFloats(buf)
	w, ds, rest := (*buf)[:size], (*buf)[size:2*size], (*buf)[2*size:]
	k, v, gk, gv, _ := split5(rest, columns*hd, columns*hd, columns*hd, columns*hd, 0)
	for row, from := range p.origins {
		keys, values, at := o.k, o.v, bh*o.l+int(from)-o.Rows()
		if int(from) < o.Rows() {
			keys, values, at = o.past, o.before.V, bh*o.Rows()+int(from)
		}
		copy(k[row*hd:][:hd], keys.Data()[at*hd:])
		copy(v[row*hd:][:hd], values.Data()[at*hd:])
	}
	rows := (bh/o.Heads*o.l+p.i0)*d + bh%o.Heads*hd
	out, g, q := o.y.Data()[rows:], dy[rows:], o.q.Data()[(bh*o.l+p.i0)*hd:]
	gemm := o.precision.GemmInline

	o.weights(w, bh, p.i0, p.rows, columns-p.rows, k, nil, true)
	gemm(kernel.Product{Op: kernel.NT, M: p.rows, N: columns, K: hd, A: g, LDA: d, B: v, LDB: hd, C: ds, LDC: columns})
	for r := range p.rows {
		delta := kernel.Dot(g[r*d:][:hd], out[r*d:][:hd])
		kernel.SoftmaxGrad(ds[r*columns:][:columns], w[r*columns:][:columns], delta, o.scale)
	}
	gemm(kernel.Product{
		Op: kernel.NN, M: p.rows, N: hd, K: columns, A: ds, LDA: columns, B: k, LDB: hd, C: dq[p.i0*hd:], LDC: hd,
	})
	gemm(kernel.Product{
		Op: kernel.TN, M: columns, N: hd, K: p.rows, A: ds, LDA: columns, B: q, LDB: hd, C: gk, LDC: hd,
	})
	gemm(kernel.Product{Op: kernel.TN, M: columns, N: hd, K: p.rows, A: w, LDA: columns, B: g, LDB: d, C: gv, LDC: hd})
	for row, to := range p.origins {
		kernel.Add(dk[int(to)*hd:][:hd], gk[row*hd:])
		kernel.Add(dv[int(to)*hd:][:hd], gv[row*hd:])
	}
}
