package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// DecayWindow computes the window row by row, and again in backward.
func (eng *Engine) DecayWindow(h, at, rate *tensor.Tensor, shift float32) *tensor.Tensor {
	d := rate.Len()
	o := decayWindowOp{h: h, at: at, rate: rate, shift: shift, y: eng.like(h)}
	o.rows(func(r int, window []float32) { kernel.MulInto(o.y.Data()[r*d:][:d], h.Data()[r*d:], window) })
	record(eng, "DecayWindow", o, o.y, h)
	return o.y
}

type decayWindowOp struct {
	h, at, rate, y *tensor.Tensor
	shift          float32
}

// rows calls f on all cores with the number of every row of h and its window.
func (o *decayWindowOp) rows(f func(r int, window []float32)) {
	d := o.rate.Len()
	parallel.For(o.h.Rows(), rowGrain(d), func(lo, hi int) {
		rates, buf := getFloats(d), getFloats(d)
		defer putFloats(rates)
		defer putFloats(buf)
		for i, v := range o.rate.Data() {
			(*rates)[i] = -max(v, -v)
		}
		for r := lo; r < hi; r++ {
			window := (*buf)[:d]
			copy(window, *rates)
			kernel.Scale(window, o.at.Data()[r])
			kernel.ExpShift(window, 0, 1)
			for i := range window {
				window[i] += o.shift
			}
			f(r, window)
		}
	})
}

func (o *decayWindowOp) Backward(eng *Engine) {
	dh, dy, d := eng.gradOf(o.h), o.y.Grad(), o.rate.Len()
	if dh != nil {
		o.rows(func(r int, window []float32) { kernel.MulAdd(dh[r*d:][:d], dy[r*d:], window) })
	}
}
