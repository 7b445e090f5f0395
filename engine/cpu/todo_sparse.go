package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

func (eng *Engine) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows, states []*engine.SpAttenState) *tensor.Tensor {
	panic("todo")
}
