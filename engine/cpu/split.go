package cpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Split copies position by position.
func (eng *Engine) Split(x *tensor.Tensor, widths ...int) []*tensor.Tensor {
	op := take[splitOp](eng)
	op.x, op.parts = x, op.parts[:0]
	d := 0
	for _, w := range widths {
		op.parts = append(op.parts, eng.withLast(x, w))
		d += w
	}
	parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := x.Data()[r*d:][:d]
			for _, y := range op.parts {
				w := y.Dim(-1)
				copy(y.Data()[r*w:][:w], row)
				row = row[w:]
			}
		}
	})
	if eng.wants(x) {
		eng.push("Split", op, op.parts...)
	}
	return slices.Clone(op.parts)
}

type splitOp struct {
	x     *tensor.Tensor
	parts []*tensor.Tensor
}

func (o *splitOp) Backward(eng *Engine) {
	dx, add := eng.gradTo(o.x)
	if dx == nil {
		return
	}
	d := o.x.Dim(-1)
	parallel.For(o.x.Rows(), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := dx[r*d:][:d]
			for _, y := range o.parts {
				w := y.Dim(-1)
				switch dy := y.Grad(); {
				case dy != nil && add:
					kernel.Add(row[:w], dy[r*w:][:w])
				case dy != nil:
					copy(row[:w], dy[r*w:])
				case !add:
					clear(row[:w])
				}
				row = row[w:]
			}
		}
	})
}
