package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

func (eng *Engine) Attention(qkv *tensor.Tensor, r *engine.Rows, caches []*engine.KVCache, o engine.AttentionOptions, drop uint64) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) CrossAttention(q, kv *tensor.Tensor, heads int, rq, rkv *engine.Rows) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) Rotate(x *tensor.Tensor, heads int, rot engine.Rotary, r *engine.Rows) *tensor.Tensor {
	panic("todo")
}
func (eng *Engine) LinearAttention(q, k, v *tensor.Tensor, o engine.LinearOptions, r *engine.Rows, s, z engine.Slots) *tensor.Tensor {
	panic("todo")
}
