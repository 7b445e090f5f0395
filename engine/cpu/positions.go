package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Positions copies the positions [at, at+n) of every sequence: x (b, l, d) → y (b, n, d).
func (eng *Engine) oldPositions(x *tensor.Tensor, at, n int) *tensor.Tensor {
	return eng.pick(positionsOp{x: x, y: eng.New(x.Dim(0), n, x.Dim(2)), b: x.Dim(0), at: at, n: n})
}

// Rows copies the rows [at, at+n) of x (…, d), all axes but the last taken as one: y (n, d).
func (eng *Engine) oldRows(x *tensor.Tensor, at, n int) *tensor.Tensor {
	return eng.pick(positionsOp{x: x, y: eng.New(n, x.Dim(-1)), b: 1, at: at, n: n})
}

// pick copies the rows of o.
func (eng *Engine) pick(o positionsOp) *tensor.Tensor {
	o.each(o.y.Data(), o.x.Data(), func(y, x []float32) { copy(y, x) })
	if eng.wants(o.x) {
		op := take[positionsOp](eng)
		*op = o
		eng.push(op)
	}
	return o.y
}

type positionsOp struct {
	x, y     *tensor.Tensor
	b, at, n int
}

func (o *positionsOp) Name() string                   { return "Positions" }
func (o *positionsOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }

// each calls f on all cores for pieces of y, which has the shape of the result, with their places in x, which has that of the input.
func (o *positionsOp) each(y, x []float32, f func(y, x []float32)) {
	d := o.x.Dim(-1)
	l := o.x.Rows() / o.b
	overPositions(o.b, o.n, rowGrain(d), func(b, lo, hi int) {
		f(y[(b*o.n+lo)*d:(b*o.n+hi)*d], x[(b*l+o.at+lo)*d:][:(hi-lo)*d])
	})
}

func (o *positionsOp) Backward(eng *Engine) {
	if dx, dy := eng.gradOf(o.x), o.y.Grad(); dx != nil && dy != nil {
		o.each(dy, dx, func(dy, dx []float32) { kernel.Add(dx, dy) })
	}
}
