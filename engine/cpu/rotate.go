package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Rotate copies a position, and rotates its heads in the copy.
func (eng *Engine) Rotate(x *tensor.Tensor, heads int, rot engine.Rotary, r *engine.Rows) *tensor.Tensor {
	op := take[rotateOp](eng)
	*op = rotateOp{x: x, y: eng.like(x), heads: heads, rotary: rot, rows: r}
	d := x.Dim(-1)
	op.eachPosition(func(at int, t turn) {
		y := op.y.Data()[at*d:][:d]
		copy(y, x.Data()[at*d:])
		for hd := d / heads; len(y) > 0; y = y[hd:] {
			t.rotate(y)
		}
	})
	if eng.wants(x) {
		eng.push("Rotate", op, op.y)
	}
	return op.y
}

type rotateOp struct {
	x, y   *tensor.Tensor
	heads  int
	rotary engine.Rotary
	rows   *engine.Rows
}

// eachPosition calls f on all cores for every position of the tensor, with the turn for its position in the sequence.
func (o *rotateOp) eachPosition(f func(at int, t turn)) {
	overRows(o.rows, rowGrain(o.x.Dim(-1)), func(i, lo, hi int) {
		for p := lo; p < hi; p++ {
			t, _ := turns(o.rotary, o.rows.Start(i)+p)
			f(o.rows.From(i)+p, t)
		}
	})
}

// Backward rotates the gradient back.
func (o *rotateOp) Backward(eng *Engine) {
	dx, dy, d := eng.gradOf(o.x), o.y.Grad(), o.x.Dim(-1)
	if dx == nil {
		return
	}
	o.eachPosition(func(at int, t turn) {
		g := dy[at*d:][:d] // dy is no longer used
		for rest, hd := g, d/o.heads; len(rest) > 0; rest = rest[hd:] {
			t.transposed(rest)
		}
		kernel.Add(dx[at*d:][:d], g)
	})
}
