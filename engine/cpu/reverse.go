package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Reverse turns the sequences of x (…, l, d) round and moves them on by lag ≥ 0 positions towards the start: y[t] = x[l-1-lag-t],
// zero where there is no such position. It is its own transpose.
//
// A convolution of Reverse(u, 0), reversed with lag 1, looks ahead: y[t] = Σ_j k[j]·u[t+1+j].
func (eng *Engine) oldReverse(x *tensor.Tensor, lag int) *tensor.Tensor {
	y := eng.like(x)
	o := reverseOp{x: x, y: y, lag: lag}
	o.rows(func(yt, xt int, d int) {
		if to := y.Data()[yt:][:d]; xt < 0 {
			clear(to)
		} else {
			copy(to, x.Data()[xt:])
		}
	})
	if eng.wants(x) {
		op := take[reverseOp](eng)
		*op = o
		eng.push(op)
	}
	return y
}

type reverseOp struct {
	x, y *tensor.Tensor
	lag  int
}

// rows calls f for each row of y, on all cores, with where it begins and where the row of x does, negative where there is none.
func (o *reverseOp) rows(f func(yt, xt, d int)) {
	l, d := o.x.Dim(-2), o.x.Dim(-1)
	parallel.For(o.x.Rows(), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			b, t := r/l, l-1-o.lag-r%l
			if t < 0 {
				f(r*d, -1, d)
			} else {
				f(r*d, (b*l+t)*d, d)
			}
		}
	})
}

func (o *reverseOp) Name() string                   { return "Reverse" }
func (o *reverseOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *reverseOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil || dy == nil {
		return
	}
	o.rows(func(yt, xt, d int) {
		if xt >= 0 {
			kernel.Add(dx[xt:][:d], dy[yt:][:d])
		}
	})
}
