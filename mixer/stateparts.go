package mixer

import (
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// StatePart is a tensor of a state.
type StatePart struct {
	Name     string           // by which State.Tensors visits it
	Integers *engine.Integers // what its elements are held as, nil for floats

	tensor func() *tensor.Tensor // perhaps a copy, which is made for each call
}

// NewStatePart is a part of floats.
func NewStatePart(name string, x *tensor.Tensor) StatePart {
	return StatePart{Name: name, tensor: func() *tensor.Tensor { return x }}
}

// Values returns the shape and a copy of the elements.
func (p StatePart) Values() (shape []int, values []float32) {
	x := p.tensor()
	values = make([]float32, x.Len())
	x.CopyTo(values)
	return x.Shape(), values
}

// StateParts are what State.Tensors visits, in that order, without copies. They are valid until the state changes.
func StateParts(s State) (parts []StatePart) {
	switch s := s.(type) {
	case *attentionState:
		return s.parts()
	case *parallelState:
		for i, part := range s.parts {
			for _, p := range StateParts(part) {
				p.Name = s.names[i] + "." + p.Name
				parts = append(parts, p)
			}
		}
		return parts
	}
	s.Tensors(func(name string, x *tensor.Tensor) {
		parts = append(parts, NewStatePart(name, x))
	})
	return parts
}

// RestoreIntegers is State.Restore of integers times factors for each row, where the state holds that tensor as
// integers. For others it does nothing, and returns false.
func RestoreIntegers(s State, name string, shape []int, q []int8, factors []float32) (done bool, err error) {
	switch s := s.(type) {
	case *attentionState:
		return s.restoreIntegers(name, shape, q, factors)
	case *parallelState:
		for i, part := range s.parts {
			if rest, ok := strings.CutPrefix(name, s.names[i]+"."); ok {
				return RestoreIntegers(part, rest, shape, q, factors)
			}
		}
	}
	return false, nil
}
