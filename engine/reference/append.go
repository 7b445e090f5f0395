package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Append puts each row x of l positions after a row of p past positions:
//
//	y[t] = past[t] for t < p,   x[t-p] for t ≥ p
//	dpast[t] = dy[t],   dx[t] = dy[p+t]
func (eng *Engine) Append(past, x *tensor.Tensor, p, r *engine.Rows) *tensor.Tensor {
	d := x.Dim(-1)
	y := eng.New(p.Total()+r.Total(), d)
	// inPast and inX visit every element of past and of x, with its index in y.
	inPast := func(visit func(to, from int)) {
		for row := range p.Count() {
			for j := p.From(row) * d; j < (p.From(row)+p.Len(row))*d; j++ {
				visit(r.From(row)*d+j, j)
			}
		}
	}
	inX := func(visit func(to, from int)) {
		for row := range r.Count() {
			for j := r.From(row) * d; j < (r.From(row)+r.Len(row))*d; j++ {
				visit((p.From(row)+p.Len(row))*d+j, j)
			}
		}
	}
	pasts, xs, ys := eng.values(past), eng.values(x), eng.values(y)
	inPast(func(to, from int) { ys[to] = pasts[from] })
	inX(func(to, from int) { ys[to] = xs[from] })
	eng.record("Append", list{y}, list{past, x}, func() {
		dPast, dx, dy := eng.gradOf(past), eng.gradOf(x), eng.gradOf(y)
		inPast(func(to, from int) { dPast[from] += dy[to] })
		inX(func(to, from int) { dx[from] += dy[to] })
	})
	return y
}
