package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

type attentionOp struct {
	attention
	grads []attentionGrads // of the rows, during backward
}

// Backward computes, with P the weights after the softmax (P' after dropout) and δ_i = Σ_j dy_ij y_ij,
//
//	dV = P'ᵀ dY,   dP' = dY Vᵀ,   dS = P ⊙ (dP - δ),   dQ = dS K/√hd,   dK = dSᵀ Q/√hd
func (o *attentionOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	if dy == nil {
		dy = eng.grad(o.y)
	}
	dqkv, add := eng.gradTo(o.qkv)
	dq, dk := eng.arena.Borrow(len(o.q)), eng.arena.Borrow(o.alone)
	defer eng.done(dq)
	defer eng.done(dk)
	dv := dk
	if o.kinds() == 2 {
		dv = eng.arena.Borrow(o.alone)
		defer eng.done(dv)
	}
	o.grads = resize(o.grads, len(o.each))
	grads := o.grads
	for i := range grads {
		if row := &o.each[i]; row.newK != nil { // later operations may have added to it already
			grads[i] = attentionGrads{eng.grad(row.newK), eng.grad(row.newV)}
		} else {
			grads[i] = attentionGrads{dk[row.alone:][:len(row.k)], dv[row.alone:][:len(row.v)]}
		}
	}
	parallel.For(len(o.each)*o.keyHeads, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row, key := &o.each[i/o.keyHeads], i%o.keyHeads
			o.backwardHead(dq, grads[row.index].head(row, key, o.hd), dy, row, key)
		}
	})
	o.packGrad(dqkv, dq, grads, add)
	for i := range grads {
		row := &o.each[i]
		if o.pastGrad(eng.gradOf(row.pastK), grads[i].k, row); o.kinds() == 2 {
			o.pastGrad(eng.gradOf(row.pastV), grads[i].v, row)
		}
	}
}

// attentionGrads holds the gradients of the keys and values of a row, or of one of its heads. If the values are the
// keys, k and v are the same slice, to which both gradients are added.
type attentionGrads struct{ k, v []float32 }

// head returns the part of one head. It is cleared unless later operations may have added to it.
func (g attentionGrads) head(row *attentionRow, key, hd int) attentionGrads {
	n := row.keys() * hd
	g.k, g.v = g.k[key*n:][:n], g.v[key*n:][:n]
	if row.newK == nil {
		clear(g.k)
		clear(g.v)
	}
	return g
}

// backwardHead runs backward through all heads of queries that see one head of keys and values.
func (o *attentionOp) backwardHead(dq []float32, g attentionGrads, dy []float32, row *attentionRow, key int) {
	keys, values, buf := o.gradHead(row, key)
	defer putFloats(buf)
	for h, group := key*(o.opt.Heads/o.keyHeads), o.opt.Heads/o.keyHeads; group > 0; h, group = h+1, group-1 {
		for i := range o.tiles(row) {
			o.backwardTile(dq, g, dy, &keys, &values, row, h, i)
		}
	}
}

func (o *attentionOp) backwardTile(dq []float32, grads attentionGrads, dy []float32, keys, values *rowsOfHead,
	row *attentionRow, h, i int) {
	d, hd := o.opt.Heads*o.hd, o.hd
	var spans spanBuffer
	w := o.tile(spans[:], row, h, i)
	n := w.columns
	buf := getFloats(2 * w.rows * n)
	defer putFloats(buf)
	p, ds := (*buf)[:w.rows*n], (*buf)[w.rows*n:]
	out, g, q := o.outputs(o.y.Data(), row, h, w.i0), o.outputs(dy, row, h, w.i0), o.queries(o.q, row, h, w.i0)
	lse := o.lse[row.from*o.opt.Heads+h*row.l+w.i0:][:w.rows]

	o.scores(p, keys, row, h, &w, lse, true)
	values.dots(ds, g, d, &w)
	o.dropWeights(ds, row, h, &w)
	for r := range w.rows {
		delta := kernel.Dot(g[r*d:][:hd], out[r*d:][:hd])
		from, to := w.seen(r)
		x := ds[r*n:][:n]
		clear(x[:from])
		kernel.SoftmaxGrad(x[from:to], p[r*n:][from:to], delta, o.scale)
		clear(x[to:])
	}
	o.dropWeights(p, row, h, &w)
	keys.sums(o.queries(dq, row, h, w.i0), hd, ds, &w)
	o.addToRows(grads.k, ds, q, hd, row, &w)
	o.addToRows(grads.v, p, g, d, row, &w)
}

// pastGrad adds the past's part of the gradient dk of all keys (or values) to dpast, which is nil if it is not wanted.
func (o *attentionOp) pastGrad(dpast, dk []float32, row *attentionRow) {
	if dpast == nil {
		return
	}
	n, before := row.past*o.hd, (row.forget+row.past)*o.hd
	for h := range o.keyHeads {
		kernel.Add(dpast[h*before+row.forget*o.hd:][:n], dk[h*row.keys()*o.hd:])
	}
}

// packGrad rotates the gradients of queries and keys back, and writes or adds them and the values' gradients to dqkv.
func (o *attentionOp) packGrad(dqkv, dq []float32, grads []attentionGrads, add bool) {
	if dqkv == nil {
		return
	}
	hd, kd, width := o.hd, o.keyHeads*o.hd, o.opt.Packed()*o.hd
	overRows(o.rows, rowGrain(width), func(index, lo, hi int) {
		row, grad := &o.each[index], grads[index]
		var buf *[]float32
		if add {
			buf = getFloats(width)
			defer putFloats(buf)
		}
		for i := lo; i < hi; i++ {
			to := dqkv[(row.from+i)*width:][:width]
			g := to
			if add {
				g = *buf
			}
			turnQ, turnK := turns(o.opt.Rotary, row.start+row.past+i)
			for h := range o.opt.Heads {
				q := g[h*hd:][:hd]
				copy(q, o.queries(dq, row, h, i))
				turnQ.transposed(q)
			}
			keys := g[o.opt.Heads*hd:]
			for h := range o.keyHeads {
				at := (h*row.keys() + row.past + i) * hd
				k := keys[h*hd:][:hd]
				copy(k, grad.k[at:])
				turnK.transposed(k)
				if o.kinds() == 2 {
					copy(keys[kd+h*hd:][:hd], grad.v[at:])
				}
			}
			if add {
				kernel.Add(to, g)
			}
		}
	})
}
