package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Backend is engine.Backend on all cores. What outlives a step is float32 in ordinary memory, on huge pages if the
// system has them.
type Backend struct{}

var _ engine.Backend = Backend{}

// kind names this engine, and is its key in engine.Cache.
const kind = "cpu"

// Kind is "cpu".
func (Backend) Kind() string { return kind }

// Open is New.
func (Backend) Open(step *engine.Step) engine.Engine { return New(step) }

// Zeros returns tensors side by side in one piece of memory.
func (Backend) Zeros(like ...*tensor.Tensor) []*tensor.Tensor {
	all := make([]*tensor.Tensor, len(like))
	for i, x := range like {
		all[i] = tensor.Shaped(x.Shape()...)
	}
	tensor.Zeros(all...)
	return all
}

// Place does nothing: the host's memory is this engine's.
func (Backend) Place(...*tensor.Tensor) {}

// AllFinite reports whether x holds neither NaN nor infinity.
func (Backend) AllFinite(x *tensor.Tensor) bool {
	if w := wideOf(x); w != nil {
		return finiteWide(w)
	}
	return kernel.AllFinite(x.Data())
}
