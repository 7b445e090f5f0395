package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/tensor"
)

// DecayWindow multiplies Hyena's filters h (l, d) by a window that decays at a rate of its own in each channel
// (arXiv:2302.10866, §3.3). Times and rates are constants:
//
//	y[i, c] = w[i, c]·h[i, c],   w[i, c] = e^(-t[i]·|rate[c]|) + shift
//	dh[i, c] = w[i, c]·dy[i, c]
func (eng *Engine) DecayWindow(h, at, rate *tensor.Tensor, shift float32) *tensor.Tensor {
	d := rate.Len()
	times, rates := eng.values(at), eng.values(rate)
	window := func(i int) float64 { return math.Exp(-times[i/d]*math.Abs(rates[i%d])) + float64(shift) }
	y := eng.like(h)
	ys := eng.values(y)
	for i, v := range eng.values(h) {
		ys[i] = window(i) * v
	}
	eng.record("DecayWindow", list{y}, list{h}, func() {
		dh, dy := eng.gradOf(h), eng.gradOf(y)
		for i, v := range dy {
			dh[i] += window(i) * v
		}
	})
	return y
}
