package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Cut takes n[i] positions of row i. It is a move, see there:
//
//	y[t] = x[at[i]+t],   t < n[i]
//	dx[at[i]+t] = dy[t]
func (eng *Engine) Cut(x *tensor.Tensor, r *engine.Rows, at, n []int) *tensor.Tensor {
	var from []int // the position of x for each position of y
	for row, l := range n {
		for t := range l {
			from = append(from, r.From(row)+at[row]+t)
		}
	}
	return eng.movePositions("Cut", eng.New(len(from), x.Dim(-1)), x, from)
}

// Slice takes n positions, whichever rows they belong to. It is a move, see there:
//
//	y[t] = x[at+t],   t < n
//	dx[at+t] = dy[t]
func (eng *Engine) Slice(x *tensor.Tensor, at, n int) *tensor.Tensor {
	d := x.Dim(-1)
	return eng.move("Slice", eng.New(n, d), x, func(i int) int { return at*d + i })
}
