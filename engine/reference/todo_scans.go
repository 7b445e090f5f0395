package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

func (eng *Engine) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) Recurrence(u, rw *tensor.Tensor, tanhs int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) Dropout(x *tensor.Tensor, p float64, r *engine.Rows, op uint64) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) Append(past, x *tensor.Tensor, p, r *engine.Rows) *tensor.Tensor  { panic("todo") }
func (eng *Engine) Cut(x *tensor.Tensor, r *engine.Rows, at, n []int) *tensor.Tensor { panic("todo") }
func (eng *Engine) Slice(x *tensor.Tensor, at, n int) *tensor.Tensor                 { panic("todo") }
func (eng *Engine) Reverse(x *tensor.Tensor, lag int, r *engine.Rows) *tensor.Tensor { panic("todo") }
func (eng *Engine) MeanPositions(x *tensor.Tensor, r *engine.Rows) *tensor.Tensor    { panic("todo") }
func (eng *Engine) Embedding(w *tensor.Tensor, ids []int32) *tensor.Tensor           { panic("todo") }
