package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Reverse copies position by position. Backward is the same, because Reverse is its own transpose.
func (eng *Engine) Reverse(x *tensor.Tensor, lag int, r *engine.Rows) *tensor.Tensor {
	o := take[reverseOp](eng)
	*o = reverseOp{x: x, y: eng.like(x), rows: r, lag: lag}
	o.each(o.y.Data(), x.Data(), func(y, x []float32) {
		if x == nil {
			clear(y)
		} else {
			copy(y, x)
		}
	})
	if eng.wants(x) {
		eng.push("Reverse", o, o.y)
	}
	return o.y
}

type reverseOp struct {
	x, y *tensor.Tensor
	rows *engine.Rows
	lag  int
}

// each calls f on all cores for each position of y, with the position of x that is copied to it, or nil.
func (o *reverseOp) each(y, x []float32, f func(y, x []float32)) {
	d := o.x.Dim(-1)
	overRows(o.rows, rowGrain(d), func(i, lo, hi int) {
		at, l := o.rows.From(i), o.rows.Len(i)
		for t := lo; t < hi; t++ {
			to := y[(at+t)*d:][:d]
			if from := l - 1 - o.lag - t; from >= 0 {
				f(to, x[(at+from)*d:][:d])
			} else {
				f(to, nil)
			}
		}
	})
}

func (o *reverseOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil {
		return
	}
	o.each(dy, dx, func(dy, dx []float32) {
		if dx != nil {
			kernel.Add(dx, dy)
		}
	})
}
