package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// AddLayerNorm makes one pass over each position, and saves its mean and reciprocal standard deviation for backward.
func (eng *Engine) AddLayerNorm(x, r, w, b *tensor.Tensor, eps float64) (s, y *tensor.Tensor) {
	d := x.Dim(-1)
	s = x
	if r != nil {
		s = eng.like(x)
	}
	y = eng.like(x)
	rows := x.Rows()
	stats := eng.arena.Floats(2 * rows)
	mean, rstd := stats[:rows], stats[rows:]
	parallel.For(rows, rowGrain(d), func(lo, hi int) {
		sd := s.Data()[lo*d : hi*d]
		if r != nil {
			copy(sd, x.Data()[lo*d:hi*d])
			kernel.Add(sd, r.Data()[lo*d:hi*d])
		}
		kernel.LayerNorm(y.Data()[lo*d:hi*d], mean[lo:hi], rstd[lo:hi], sd, w.Data(), b.Data(), d, eps)
	})
	record(eng, normOp{x: x, r: r, s: s, w: w, b: b, y: y, mean: mean, rstd: rstd}, x, r, w, b)
	return s, y
}

type normOp struct {
	x, r, s, w, b, y *tensor.Tensor
	mean, rstd       []float32
}

func (o *normOp) Name() string { return "AddLayerNorm" }

func (o *normOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	if o.r != nil {
		f(o.s)
	}
}

func (o *normOp) Backward(eng *Engine) {
	d, rows := o.x.Dim(-1), len(o.mean)
	if dy := o.y.Grad(); dy != nil {
		// The gradient of s has two parts: the one through the norm is added to the one of the residual stream.
		if ds := eng.gradOf(o.s); ds != nil {
			parallel.For(rows, rowGrain(d), func(lo, hi int) {
				kernel.LayerNormGrad(ds[lo*d:hi*d], dy[lo*d:hi*d], o.s.Data()[lo*d:hi*d], o.w.Data(), o.mean[lo:hi],
					o.rstd[lo:hi], d)
			})
		}
		o.paramGrad(eng, dy, d, rows)
	}
	if o.r == nil || o.s.Grad() == nil {
		return
	}
	eng.addGrad(o.x, o.s.Grad())
	eng.moveGrad(o.r, o.s)
}

func (o *normOp) paramGrad(eng *Engine, dy []float32, d, rows int) {
	dw, db := eng.gradOf(o.w), eng.gradOf(o.b)
	if dw == nil && db == nil {
		return
	}
	g := rowGrain(d)
	chunks := (rows + g - 1) / g
	partial := eng.scratch(2 * chunks * d)
	defer eng.done(partial)
	parallel.For(rows, g, func(lo, hi int) {
		p := partial[2*(lo/g)*d:]
		kernel.LayerNormParamGrad(p[:d], p[d:2*d], dy[lo*d:hi*d], o.s.Data()[lo*d:hi*d], o.mean[lo:hi], o.rstd[lo:hi],
			d)
	})
	for c := range chunks { // Add does nothing for a gradient of nil
		kernel.Add(dw, partial[2*c*d:][:d])
		kernel.Add(db, partial[(2*c+1)*d:][:d])
	}
}
