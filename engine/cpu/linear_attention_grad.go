package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

type linearAttentionOp struct {
	linearAttention
	stateGrads []linearStateGrads // of the rows, during backward
}

// Backward uses y = N/D with D the denominators, so dN = dy/D and dD = -(dy·y)/D. Within a chunk, with W the weights up
// to the diagonal and S, z the state before it,
//
//	dW = dN Vᵀ + dD,   dφ(q) = dW φ(k) + dN Sᵀ + dD z,   dφ(k) = dWᵀ φ(q) + V dSᵀ + dz,   dV = Wᵀ dN + φ(k) dS
//
// where dS, dz are the gradients of the state after the chunk. The gradients of the state before it are dS + φ(q)ᵀ dN
// and dz + φ(q)ᵀ dD. Forward has saved the states between chunks.
func (o *linearAttentionOp) Backward(eng *Engine) {
	g := linearGrads{dy: o.y.Grad(), dq: eng.gradOf(o.q), dk: eng.gradOf(o.k), dv: eng.gradOf(o.v)}
	if g.dy == nil { // only states were used
		g.dy = eng.grad(o.y)
	}
	o.stateGrads = resize(o.stateGrads, o.rows.Count())
	for i := range o.stateGrads {
		d := &o.stateGrads[i]
		d.s, d.nextS = o.s.grads(eng, i)
		d.z, d.nextZ = o.z.grads(eng, i)
	}
	o.eachHeads(func(row, lo, hi int) { o.backward(&g, row, lo, hi) })
}

// linearGrads holds the gradients of the tensors, nil for those that are not wanted.
type linearGrads struct{ dy, dq, dk, dv []float32 }

// linearStateGrads holds the gradients of the states before a row, and after it.
type linearStateGrads struct{ s, z, nextS, nextZ []float32 }

// backward runs backward through the heads [lo, hi) of a row, at most linearHeads.
func (o *linearAttentionOp) backward(g *linearGrads, row, lo, hi int) {
	const c = linearChunk
	state, d := o.e*o.m+o.e, o.stateGrads[row]
	var group [linearHeads]linearChunkGrad
	heads := group[:hi-lo]
	for j := range heads {
		w := &heads[j]
		w.linearHead = o.head(row, lo+j)
		w.more = getFloats(state + c*(o.e+1+o.m+c))
		var ds []float32
		ds, w.df, w.dd, w.dn, w.dw = split5(*w.more, state, c*o.e, c, c*o.m, c*c)
		w.ds, w.dz = ds[:o.e*o.m], ds[o.e*o.m:]
		copyOrClear(w.ds, d.nextS, lo+j)
		copyOrClear(w.dz, d.nextZ, lo+j)
	}
	for l, t0 := o.rows.Len(row), (o.rows.Len(row)-1)/c*c; t0 >= 0; t0 -= c {
		for j := range heads {
			heads[j].s, heads[j].z = o.stateBefore(row, lo+j, t0)
			heads[j].backward(g, t0, min(c, l-t0))
		}
	}
	for j := range heads {
		addTo(d.s, heads[j].ds, lo+j)
		addTo(d.z, heads[j].dz, lo+j)
		putFloats(heads[j].scratch)
		putFloats(heads[j].more)
	}
}

// copyOrClear sets x to part i of parts, each as long as x, or to zero if parts is nil.
func copyOrClear(x, parts []float32, i int) {
	if parts == nil {
		clear(x)
	} else {
		copy(x, parts[i*len(x):])
	}
}

// addTo adds x to part i of parts, each as long as x, unless parts is nil.
func addTo(parts, x []float32, i int) {
	if parts != nil {
		kernel.Add(parts[i*len(x):][:len(x)], x)
	}
}

// linearChunkGrad runs backward through one chunk of a head.
type linearChunkGrad struct {
	linearHead
	more   *[]float32 // scratch for the fields below
	ds, dz []float32  // gradients of the state after the chunk, then of the state before it
	df     []float32  // of the features, (n, e)
	dd, dn []float32  // of the denominators (n) and numerators (n, m)
	dw     []float32  // of the weights, (n, n)
}

func (w *linearChunkGrad) backward(g *linearGrads, t0, n int) {
	e, m := w.e, w.m
	w.load(t0, n)
	at := w.vAt + t0*w.vStep
	y, dy, v := w.y.Data()[at:], g.dy[at:], w.v.Data()[at:]
	gemm := w.precision.GemmInline
	gemm(kernel.Product{Op: kernel.NT, M: n, N: n, K: m, A: dy, LDA: w.vStep, B: v, LDB: w.vStep, C: w.dw, LDC: n})
	for r := range n {
		row, norm := dy[r*w.vStep:][:m], 1/w.norms[t0+r]
		dn, dd := w.dn[r*m:][:m], -kernel.Dot(row, y[r*w.vStep:])*norm
		copy(dn, row)
		kernel.Scale(dn, norm)
		dw := w.dw[r*n:][:r+1]
		kernel.Scale(dw, norm)
		kernel.Axpy(dd, linearOnes[:len(dw)], dw)
		clear(w.dw[r*n+r+1 : (r+1)*n])
		w.dd[r] = dd
	}
	if g.dv != nil {
		gemm(kernel.Product{
			Op: kernel.TN, M: n, N: m, K: n, A: w.w, LDA: n, B: w.dn, LDB: m, C: g.dv[at:], LDC: w.vStep, Add: true,
		})
		gemm(kernel.Product{
			Op: kernel.NN, M: n, N: m, K: e, A: w.fk, LDA: e, B: w.ds, LDB: m, C: g.dv[at:], LDC: w.vStep, Add: true,
		})
	}
	gemm(kernel.Product{Op: kernel.TN, M: n, N: e, K: n, A: w.dw, LDA: n, B: w.fq, LDB: e, C: w.df, LDC: e})
	gemm(kernel.Product{
		Op: kernel.NT, M: n, N: e, K: m, A: v, LDA: w.vStep, B: w.ds, LDB: m, C: w.df, LDC: e, Add: true,
	})
	for r := range n {
		kernel.Add(w.df[r*e:][:e], w.dz)
	}
	w.addGrad(g.dk, w.k, t0, n)
	gemm(kernel.Product{Op: kernel.NN, M: n, N: e, K: n, A: w.dw, LDA: n, B: w.fk, LDB: e, C: w.df, LDC: e})
	gemm(kernel.Product{Op: kernel.NT, M: n, N: e, K: m, A: w.dn, LDA: m, B: w.s, LDB: m, C: w.df, LDC: e, Add: true})
	for r, d := range w.dd[:n] {
		kernel.Axpy(d, w.z, w.df[r*e:][:e])
		kernel.Axpy(d, w.fq[r*e:][:e], w.dz)
	}
	gemm(kernel.Product{Op: kernel.TN, M: e, N: m, K: n, A: w.fq, LDA: e, B: w.dn, LDB: m, C: w.ds, LDC: m, Add: true})
	w.addGrad(g.dq, w.q, t0, n)
}

// addGrad propagates the gradients df of the features to the queries or keys x. It adds to dx, unless that is nil.
func (w *linearChunkGrad) addGrad(dx []float32, x *tensor.Tensor, t0, n int) {
	if dx == nil {
		return
	}
	for r := range n {
		at, df := w.qAt+(t0+r)*w.qStep, w.df[r*w.e:][:w.e]
		featureMapGrad(w.Phi, df, x.Data()[at:][:w.e])
		kernel.Add(dx[at:][:w.e], df)
	}
}
