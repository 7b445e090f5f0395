package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Reverse reverses rows of l positions, without their last lag positions. It is a move, see there:
//
//	y[t] = x[l-1-lag-t], or 0 if there is no such position
//	dx[l-1-lag-t] = dy[t]
func (eng *Engine) Reverse(x *tensor.Tensor, lag int, r *engine.Rows) *tensor.Tensor {
	from := make([]int, 0, r.Total()) // the position of x for each position of y
	for row := range r.Count() {
		for t := range r.Len(row) {
			p := -1
			if back := r.Len(row) - 1 - lag - t; back >= 0 {
				p = r.From(row) + back
			}
			from = append(from, p)
		}
	}
	return eng.movePositions("Reverse", eng.like(x), x, from)
}
