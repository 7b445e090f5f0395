package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Backend implements engine.Backend by definition. Tensors that outlive a step are float64, except for parameters,
// which stay as they are.
type Backend struct{}

var _ engine.Backend = Backend{}

// Kind returns "reference".
func (Backend) Kind() string { return kind }

// kind is the name of this engine, and its key in engine.Cache.
const kind = "reference"

// Open returns an engine for the tape whose settings are in step.
func (Backend) Open(step *engine.Step) engine.Engine { return New(step) }

// Zeros returns tensors of zeros in the shapes of like, in float64.
func (Backend) Zeros(like ...*tensor.Tensor) []*tensor.Tensor {
	all := make([]*tensor.Tensor, len(like))
	for i, x := range like {
		all[i] = Of(make([]float64, x.Len()), x.Shape()...)
	}
	return all
}

// Place does nothing: engines copy tensors that they have not made.
func (Backend) Place(...*tensor.Tensor) {}

// LossMemory returns 0: the memory is not counted.
func (Backend) LossMemory(_, _, _ int, _ bool) int { return 0 }

// Pack panics, because the reference computes with all bits of the weights.
func (Backend) Pack(engine.Precision, engine.PackAs, ...engine.Matrix) []tensor.Packed {
	panic(errPacked)
}

// PackGroups panics like Pack.
func (Backend) PackGroups(engine.Precision, ...engine.Groups) []tensor.Packed { panic(errPacked) }

const errPacked = "engine/reference: found packed weights, want those of a model that is not packed"

// AllFinite reports whether x holds neither NaN nor infinity.
func (Backend) AllFinite(x *tensor.Tensor) bool {
	for _, v := range read(x) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// read returns the elements of a tensor, without a copy if they are float64.
func read(x *tensor.Tensor) []float64 {
	if n, ok := x.Storage().(*numbers); ok {
		return n.x
	}
	values := make([]float32, x.Len())
	if x.CopyTo(values) != x.Len() {
		panic("engine/reference: found " + x.String() + " without its elements, want those of a model that is not " +
			"packed")
	}
	all := make([]float64, len(values))
	for i, v := range values {
		all[i] = float64(v)
	}
	return all
}
