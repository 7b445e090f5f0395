package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// What follows serves old operations of other groups until they are converted.

func oldRowsOf(x *tensor.Tensor) *engine.Rows {
	return engine.EqualRows(x.Rows()/x.Dim(-2), x.Dim(-2))
}

func (eng *Engine) oldAppend(past, x *tensor.Tensor) *tensor.Tensor {
	return eng.Append(past, x, oldRowsOf(past), oldRowsOf(x))
}

func (eng *Engine) oldPositions(x *tensor.Tensor, at, n int) *tensor.Tensor {
	r := oldRowsOf(x)
	from, lengths := make([]int, r.Count()), make([]int, r.Count())
	for i := range from {
		from[i], lengths[i] = at, n
	}
	return eng.Cut(x, r, from, lengths)
}

func (eng *Engine) oldReverse(x *tensor.Tensor, lag int) *tensor.Tensor {
	return eng.Reverse(x, lag, oldRowsOf(x))
}

func (eng *Engine) oldAppendRows(c *engine.RowCache, x *tensor.Tensor) { panic("todo") }
