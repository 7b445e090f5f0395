package reference

import "github.com/hippo-ssm/hippo/tensor"

// Append puts a chunk of l positions behind p past ones, sequence by sequence:
//
//	y[b, t] = past[b, t] for t < p,   x[b, t-p] for t ≥ p
//	dpast[b, t] = dy[b, t],   dx[b, t] = dy[b, p+t]
func (eng *Engine) oldAppend(past, x *tensor.Tensor) *tensor.Tensor {
	p, l := past.Dim(-2)*past.Dim(-1), x.Dim(-2)*x.Dim(-1) // elements of a sequence
	shape := x.Shape()
	shape[len(shape)-2] += past.Dim(-2)
	y := eng.New(shape...)
	ys := eng.values(y)
	for i, v := range eng.values(past) {
		ys[i/p*(p+l)+i%p] = v
	}
	for i, v := range eng.values(x) {
		ys[i/l*(p+l)+p+i%l] = v
	}
	eng.record("Append", list{y}, list{past, x}, func() {
		dPast, dx, dy := eng.gradOf(past), eng.gradOf(x), eng.gradOf(y)
		for i := range dPast {
			dPast[i] += dy[i/p*(p+l)+i%p]
		}
		for i := range dx {
			dx[i] += dy[i/l*(p+l)+p+i%l]
		}
	})
	return y
}
