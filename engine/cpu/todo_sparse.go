package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

func (eng *Engine) SquaredReLUAttention(q, k, v, bias *tensor.Tensor, r *engine.Rows, keys, values []*engine.RowCache) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) SpatialMix(x, w, bias *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) SinkhornAttention(q, kv *tensor.Tensor, p engine.SinkhornParams, o engine.SinkhornOptions, r *engine.Rows, caches []*engine.SinkhornCache) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows, states []*engine.SpAttenState) *tensor.Tensor {
	panic("todo")
}
