package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Sine computes f·x again in backward.
func (eng *Engine) Sine(x, f *tensor.Tensor) *tensor.Tensor {
	o := sineOp{x: x, f: f, y: eng.like(x)}
	o.angles(func(at int, angles []float32) { kernel.FuncSin.Into(o.y.Data()[at:][:len(angles)], angles) })
	record(eng, "Sine", o, o.y, x, f)
	return o.y
}

type sineOp struct{ x, f, y *tensor.Tensor }

// angles calls f on all cores with parts of f·x, which start at element at.
func (o *sineOp) angles(f func(at int, angles []float32)) {
	d, x := o.f.Len(), o.x.Data()
	const rows = 32 // few enough to stay in the processor's cache
	parallel.For(o.x.Rows(), max(rows, rowGrain(d)), func(lo, hi int) {
		buf := getFloats(rows * d)
		defer putFloats(buf)
		for ; lo < hi; lo += rows {
			n := min(rows, hi-lo)
			for r := range n {
				kernel.MulInto((*buf)[r*d:][:d], x[(lo+r)*d:], o.f.Data())
			}
			f(lo*d, (*buf)[:n*d])
		}
	})
}

// Backward computes, with g = dy·cos(f·x), dx = g·f and df = Σ g·x.
func (o *sineOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	d, dx, df := o.f.Len(), eng.gradOf(o.x), eng.gradOf(o.f)
	o.angles(func(at int, angles []float32) {
		g := dy[at:][:len(angles)]
		kernel.FuncSin.GradMul(g, angles)
		for r := 0; r < len(g) && dx != nil; r += d {
			kernel.MulAdd(dx[at+r:][:d], g[r:], o.f.Data())
		}
		if df != nil {
			kernel.Mul(g, o.x.Data()[at:])
		}
	})
	if df != nil {
		sumRows(eng, df, dy, d)
	}
}
