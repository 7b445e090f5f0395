package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Rotate turns each head of row t of x (…, l, d) by the rotation of position start + t (engine.Rotary). The gradient is
// turned back.
func (eng *Engine) oldRotate(x *tensor.Tensor, heads int, r engine.Rotary, start int) *tensor.Tensor {
	return eng.turn(x, eng.like(x), heads, r, start, 1)
}

// RotateState turns every row of a state (…, d) by the rotation of one position.
func (eng *Engine) oldRotateState(state *tensor.Tensor, r engine.Rotary, position int) *tensor.Tensor {
	return eng.turn(state, eng.next(state, eng.start(state, state.Len())), 1, r, position, 0)
}

// turn sets y to x, the heads of row t of each sequence turned by the rotation of position start + t·step.
func (eng *Engine) turn(x, y *tensor.Tensor, heads int, r engine.Rotary, start, step int) *tensor.Tensor {
	l, d := x.Dim(-2), x.Dim(-1)
	each := func(values []float64, transposed bool) {
		for at := 0; at < len(values); at += d / heads {
			rotate(r, values[at:][:d/heads], start+at/d%l*step, 1, transposed)
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
