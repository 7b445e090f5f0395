package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Rotate rotates each head at position t of a row by the rotation of position start + t (engine.Rotary). The gradient
// is rotated back.
func (eng *Engine) Rotate(x *tensor.Tensor, heads int, rot engine.Rotary, r *engine.Rows) *tensor.Tensor {
	d := x.Dim(-1)
	y := eng.like(x)
	each := func(values []float64, transposed bool) {
		for row := range r.Count() {
			for t := range r.Len(row) {
				for h := range heads {
					at := (r.From(row)+t)*d + h*d/heads
					rotate(rot, values[at:][:d/heads], r.Start(row)+t, 1, transposed)
				}
			}
		}
	}
	copy(eng.values(y), eng.values(x))
	each(eng.values(y), false)
	eng.record("Rotate", list{y}, list{x}, func() {
		g := append([]float64(nil), eng.gradOf(y)...)
		each(g, true)
		add(eng.gradOf(x), g)
	})
	return y
}

// rotate applies the rotary embedding of a position (engine.Rotary), or its transpose, to x, a query (sign 1) or a key
// (-1).
func rotate(r engine.Rotary, x []float64, position int, sign float64, transposed bool) {
	half := r.Dim / 2
	for i, f := range r.InvFreq() {
		sin, cos := math.Sincos(float64(position) * float64(f))
		if transposed {
			sin = -sin
		}
		factor := r.Magnitude()
		if r.XPos != 0 {
			factor *= math.Pow((2*float64(i)/float64(r.Dim)+0.4)/1.4, sign*float64(position)/r.XPos)
		}
		a, b := x[i], x[half+i]
		x[i], x[half+i] = factor*(a*cos-b*sin), factor*(a*sin+b*cos)
	}
}
