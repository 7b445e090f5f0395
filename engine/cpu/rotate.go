package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Rotate turns the heads, side by side, of row i of x by the rotation of position start + i.
func (eng *Engine) oldRotate(x *tensor.Tensor, heads int, r engine.Rotary, start int) *tensor.Tensor {
	return eng.rotate(rotateOp{x: x, y: eng.like(x), heads: heads, start: start, step: 1, rotary: r})
}

// RotateState turns every row of a state by the rotation of one position.
func (eng *Engine) oldRotateState(state *tensor.Tensor, r engine.Rotary, position int) *tensor.Tensor {
	o := rotateOp{x: state, y: state, heads: 1, start: position, rotary: r}
	if eng.Recording {
		o.y = eng.like(state)
	}
	return eng.rotate(o)
}

func (eng *Engine) rotate(o rotateOp) *tensor.Tensor {
	d := o.x.Dim(-1)
	o.eachRow(func(row int) {
		y := o.y.Data()[row*d:][:d]
		copy(y, o.x.Data()[row*d:])
		o.turn(y, row, false)
	})
	if eng.wants(o.x) {
		op := take[rotateOp](eng)
		*op = o
		eng.push(op)
	}
	return o.y
}

type rotateOp struct {
	x, y               *tensor.Tensor
	heads, start, step int
	rotary             engine.Rotary
}

func (o *rotateOp) Name() string                   { return "Rotate" }
func (o *rotateOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }

// eachRow calls f on all cores for every row.
func (o *rotateOp) eachRow(f func(row int)) {
	parallel.For(o.x.Rows(), rowGrain(o.x.Dim(-1)), func(lo, hi int) {
		for row := lo; row < hi; row++ {
			f(row)
		}
	})
}

// turn turns the heads of a row, or turns them back.
func (o *rotateOp) turn(x []float32, row int, back bool) {
	position := o.start + row%o.x.Dim(-2)*o.step
	if position < 0 {
		position, back = -position, !back
	}
	turn, _ := turns(o.rotary, position)
	for hd := len(x) / o.heads; len(x) > 0; x = x[hd:] {
		if back {
			turn.transposed(x)
		} else {
			turn.rotate(x)
		}
	}
}

// Backward turns the gradient back.
func (o *rotateOp) Backward(eng *Engine) {
	dx, dy, d := eng.gradOf(o.x), o.y.Grad(), o.x.Dim(-1)
	if dx == nil || dy == nil {
		return
	}
	o.eachRow(func(row int) {
		g := dy[row*d:][:d] // it is needed no more
		o.turn(g, row, true)
		kernel.Add(dx[row*d:][:d], g)
	})
}
