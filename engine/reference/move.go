package reference

import "github.com/hippo-ssm/hippo/tensor"

// move fills y with elements of x. from(i) is the index in x of element i of y, or negative for a zero:
//
//	y[i] = x[from(i)]
//	dx[from(i)] += dy[i]
func (eng *Engine) move(name string, y, x *tensor.Tensor, from func(i int) int) *tensor.Tensor {
	xs, ys := eng.values(x), eng.values(y)
	for i := range ys {
		if j := from(i); j >= 0 {
			ys[i] = xs[j]
		}
	}
	eng.record(name, list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		for i, v := range dy {
			if j := from(i); j >= 0 {
				dx[j] += v
			}
		}
	})
	return y
}

// movePositions is move for whole positions of d elements: from[p] is the position of x that goes to position p of y.
func (eng *Engine) movePositions(name string, y, x *tensor.Tensor, from []int) *tensor.Tensor {
	d := x.Dim(-1)
	return eng.move(name, y, x, func(i int) int {
		if p := from[i/d]; p >= 0 {
			return p*d + i%d
		}
		return -1
	})
}
