package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// AddLayerNorm makes one pass over each group of each position, and saves its mean and reciprocal standard deviation
// for backward.
func (eng *Engine) AddLayerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	d := w.Len() / groups
	s, made := eng.sumOf(x, r)
	y = eng.like(x)
	n := x.Len() / d
	stats := eng.arena.Floats(2 * n)
	mean, rstd := stats[:n], stats[n:]
	parallel.For(x.Rows(), rowGrain(w.Len()), func(lo, hi int) {
		lo, hi = lo*groups, hi*groups
		sd := s.Data()[lo*d : hi*d]
		if r != nil {
			kernel.AddInto(sd, x.Data()[lo*d:hi*d], r.Data()[lo*d:hi*d])
		}
		kernel.LayerNorm(y.Data()[lo*d:hi*d], mean[lo:hi], rstd[lo:hi], sd, w.Data(), b.Data(), d, eps)
	})
	if eng.wants(x, r, w, b) {
		o := normOp{x: x, r: r, s: s, w: w, b: b, y: y, mean: mean, rstd: rstd, d: d}
		eng.push("AddLayerNorm", save(eng, o), y, made)
	}
	return s, y
}

// sumOf returns space for the residual sum x + r: x itself if there is no r, else a new tensor.
func (eng *Engine) sumOf(x, r *tensor.Tensor) (s, made *tensor.Tensor) {
	if r == nil {
		return x, nil
	}
	s = eng.like(x)
	return s, s
}

// sumGrad is the backward pass of s = x + r.
func (eng *Engine) sumGrad(x, r, s *tensor.Tensor) {
	if r != nil && s.Grad() != nil {
		eng.addGrad(x, s.Grad())
		eng.moveGrad(r, s)
	}
}

type normOp struct {
	x, r, s, w, b, y *tensor.Tensor
	mean, rstd       []float32 // of each group of each row
	d                int       // of a group
}

func (o *normOp) Backward(eng *Engine) {
	d, n := o.d, o.w.Len()
	if dy := o.y.Grad(); dy != nil {
		// The gradient of s has two parts: the one through the norm is added to that of the residual stream.
		if ds := eng.gradOf(o.s); ds != nil {
			parallel.For(o.x.Rows(), rowGrain(n), func(lo, hi int) {
				lo, hi = lo*n/d, hi*n/d
				kernel.LayerNormGrad(ds[lo*d:hi*d], dy[lo*d:hi*d], o.s.Data()[lo*d:hi*d], o.w.Data(), o.mean[lo:hi],
					o.rstd[lo:hi], d)
			})
		}
		o.paramGrad(eng, dy)
	}
	eng.sumGrad(o.x, o.r, o.s)
}

func (o *normOp) paramGrad(eng *Engine, dy []float32) {
	d, n := o.d, o.w.Len()
	dw, db := eng.gradOf(o.w), eng.gradOf(o.b)
	if dw == nil && db == nil {
		return
	}
	eng.sumParts(o.x.Rows(), rowGrain(n), 2*n, func(p []float32, lo, hi int) {
		lo, hi = lo*n/d, hi*n/d
		kernel.LayerNormParamGrad(p[:n], p[n:], dy[lo*d:hi*d], o.s.Data()[lo*d:hi*d], o.mean[lo:hi], o.rstd[lo:hi], d)
	}, func(p []float32) { // Add does nothing if a gradient is nil
		kernel.Add(dw, p[:n])
		kernel.Add(db, p[n:])
	})
}
