package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

func (eng *Engine) DiagSSM(g engine.Gates, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) DPLRSSM(u *tensor.Tensor, s *engine.DPLRSystem, skip *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) GatedLongConv(g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) CachedLongConv(u, k, skip *tensor.Tensor, r *engine.Rows, caches []*engine.ConvCache) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) BothWays(u, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	panic("todo")
}
