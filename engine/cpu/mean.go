package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// MeanPositions adds partial sums over pieces of a row in order.
func (eng *Engine) MeanPositions(x *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	d := x.Dim(-1)
	o := take[meanPositionsOp](eng)
	*o = meanPositionsOp{x: x, y: eng.New(r.Count(), d), cuts: o.cut(r, rowGrain(d), nil)}
	partial := eng.scratch(o.count() * d)
	defer eng.done(partial)
	parallel.For(o.count(), max(1, o.size*r.Count()/r.Total()), func(first, end int) {
		for k := first; k < end; k++ {
			i, lo, hi := o.at(k)
			addRows(partial[k*d:][:d], x.Data()[(r.From(i)+lo)*d:(r.From(i)+hi)*d])
		}
	})
	o.y.Zero()
	for i := range r.Count() {
		mean := o.y.Data()[i*d:][:d]
		for k := o.first[i]; k < o.first[i+1]; k++ {
			kernel.Add(mean, partial[k*d:][:d])
		}
		kernel.Scale(mean, 1/float32(r.Len(i)))
	}
	if eng.wants(x) {
		eng.push("MeanPositions", o, o.y)
	}
	return o.y
}

type meanPositionsOp struct {
	x, y *tensor.Tensor
	cuts
}

func (o *meanPositionsOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil {
		return
	}
	r, d := o.rows, o.x.Dim(-1)
	for i := range r.Count() {
		kernel.Scale(dy[i*d:][:d], 1/float32(r.Len(i))) // dy is no longer used
	}
	overRows(r, rowGrain(d), func(i, lo, hi int) {
		for t := r.From(i) + lo; t < r.From(i)+hi; t++ {
			kernel.Add(dx[t*d:][:d], dy[i*d:])
		}
	})
}
