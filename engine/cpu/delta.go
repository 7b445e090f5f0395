package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

func (eng *Engine) DeltaRule(x engine.Delta, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	panic("not yet")
}
