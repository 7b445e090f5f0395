package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// AddRMSNorm makes one pass over each group of each position, and saves the reciprocal root mean square for backward.
func (eng *Engine) AddRMSNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	d := w.Len() / groups
	s, made := eng.sumOf(x, r)
	y = eng.like(x)
	rstd := eng.arena.Floats(x.Len() / d)
	parallel.For(x.Rows(), rowGrain(w.Len()), func(lo, hi int) {
		lo, hi = lo*w.Len(), hi*w.Len()
		sd := s.Data()[lo:hi]
		if r != nil {
			kernel.AddInto(sd, x.Data()[lo:hi], r.Data()[lo:hi])
		}
		kernel.RMSNorm(y.Data()[lo:hi], rstd[lo/d:hi/d], sd, w.Data(), d, eps)
	})
	if eng.wants(x, r, w) {
		eng.push("RMSNorm", save(eng, rmsNormOp{x: x, r: r, s: s, w: w, y: y, rstd: rstd, d: d}), y, made)
	}
	return s, y
}

type rmsNormOp struct {
	x, r, s, w, y *tensor.Tensor
	rstd          []float32 // of each group of each row
	d             int       // of a group
}

func (o *rmsNormOp) Backward(eng *Engine) {
	if dy := o.y.Grad(); dy != nil {
		// The gradient of s has two parts: the one through the norm is added to that of the residual stream.
		if ds := eng.gradOf(o.s); ds != nil {
			n := o.w.Len()
			parallel.For(o.x.Rows(), rowGrain(n), func(lo, hi int) {
				work := getFloats(o.d)
				defer putFloats(work)
				lo, hi = lo*n, hi*n
				kernel.RMSNormGrad(ds[lo:hi], dy[lo:hi], o.s.Data()[lo:hi], o.w.Data(), o.rstd[lo/o.d:hi/o.d], *work,
					o.d)
			})
		}
		o.paramGrad(eng, dy)
	}
	eng.sumGrad(o.x, o.r, o.s)
}

func (o *rmsNormOp) paramGrad(eng *Engine, dy []float32) {
	dw := eng.gradOf(o.w)
	if dw == nil {
		return
	}
	n, rows := o.w.Len(), o.x.Rows()
	eng.sumParts(rows, rowGrain(n), n, func(p []float32, lo, hi int) {
		work := getFloats(o.d)
		defer putFloats(work)
		lo, hi = lo*n, hi*n
		kernel.RMSNormParamGrad(p, dy[lo:hi], o.s.Data()[lo:hi], o.rstd[lo/o.d:hi/o.d], *work, o.d)
	}, func(p []float32) { kernel.Add(dw, p) })
}
