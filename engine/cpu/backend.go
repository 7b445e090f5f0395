package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Backend implements engine.Backend on all cores. Tensors that outlive a step are float32 in ordinary memory, on huge
// pages if the system has them.
type Backend struct{}

var _ engine.Backend = Backend{}

// kind is the name of this engine, and its key in engine.Cache.
const kind = "cpu"

// Kind returns "cpu".
func (Backend) Kind() string { return kind }

// Open returns an engine for the tape whose settings are in step.
func (Backend) Open(step *engine.Step) engine.Engine { return New(step) }

// Zeros returns tensors of zeros in the shapes of like, side by side in one piece of memory.
func (Backend) Zeros(like ...*tensor.Tensor) []*tensor.Tensor {
	all := make([]*tensor.Tensor, len(like))
	for i, x := range like {
		all[i] = tensor.Shaped(x.Shape()...)
	}
	tensor.Zeros(all...)
	return all
}

// Place does nothing, because this engine uses host memory.
func (Backend) Place(...*tensor.Tensor) {}

// AllFinite reports whether x holds neither NaN nor infinity.
func (Backend) AllFinite(x *tensor.Tensor) bool {
	if w := wideOf(x); w != nil {
		return finiteWide(w)
	}
	return kernel.AllFinite(x.Data())
}
