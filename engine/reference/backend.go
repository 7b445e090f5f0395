package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Backend is engine.Backend by definition. What outlives a step is float64, but for parameters, which stay as they are.
type Backend struct{}

var _ engine.Backend = Backend{}

// Kind is "reference".
func (Backend) Kind() string { return kind }

// kind names this engine, and is its key in engine.Cache.
const kind = "reference"

// Open is New.
func (Backend) Open(step *engine.Step) engine.Engine { return New(step) }

// Zeros returns tensors in float64.
func (Backend) Zeros(like ...*tensor.Tensor) []*tensor.Tensor {
	all := make([]*tensor.Tensor, len(like))
	for i, x := range like {
		all[i] = Of(make([]float64, x.Len()), x.Shape()...)
	}
	return all
}

// Place does nothing: engines copy what they have not made.
func (Backend) Place(...*tensor.Tensor) {}

// LossMemory is not counted.
func (Backend) LossMemory(_, _, _ int, _ bool) int { return 0 }

// Pack panics: the reference computes with all bits of the weights.
func (Backend) Pack(engine.Precision, engine.PackAs, ...engine.Matrix) []tensor.Packed {
	panic(errPacked)
}

// PackGroups panics as Pack.
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

// read returns the elements of a tensor: themselves if they are float64, else a copy.
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
