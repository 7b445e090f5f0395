package mixer

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// fixedState is a state of a fixed number of tensors of a fixed size: that of every recurrence.
type fixedState struct {
	names []string
	kinds []PartKind // nil for Numbers
	slots []engine.Slot
}

// newFixedState returns a state without memory: see Begin.
func newFixedState(names []string, shapes ...[]int) *fixedState {
	s := &fixedState{names: names, slots: make([]engine.Slot, len(shapes))}
	for i, shape := range shapes {
		s.slots[i].X = tensor.Shaped(shape...)
	}
	return s
}

// of says what the tensors hold.
func (s *fixedState) of(kinds ...PartKind) *fixedState {
	s.kinds = kinds
	return s
}

func (s *fixedState) kind(name string) PartKind {
	if s.kinds == nil {
		return Numbers
	}
	return s.kinds[slices.Index(s.names, name)]
}

// Begin gives states that NewState has returned their memory, once: one piece for the tensors of recurrences, in the
// order in which each token passes over them. It returns the states.
func Begin(states ...State) []State {
	tensor.Zeros(fixedTensors(nil, states)...)
	return states
}

// compact moves the tensors of recurrent states, whose size is fixed, into one piece of memory, in the order in which
// each token passes over them. They must not be results of a tape.
func compact(states []State) {
	tensor.Compact(fixedTensors(nil, states)...)
}

// Clones returns copies of states, compacted: they are copied once, and straight to their place.
func Clones(states []State) []State {
	copies := make([]State, len(states))
	for i, s := range states {
		copies[i] = shallow(s)
	}
	compact(copies)
	return copies
}

// CopyTo returns copies of states, as Clones does, in the memory of to: of earlier copies, which are not used any more.
func CopyTo(to, states []State) []State {
	for i, s := range states {
		if !refilled(to[i], s) {
			to[i] = s.Clone()
		}
	}
	return to
}

// refilled copies s to a state of the same form, and reports whether its size is fixed.
func refilled(to, s State) bool {
	switch s := s.(type) {
	case *fixedState:
		to := to.(*fixedState)
		for i := range s.slots {
			tensor.Copy(to.slots[i].X, s.slots[i].X)
		}
		return true
	case *parallelState:
		to := to.(*parallelState)
		to.parts = CopyTo(to.parts, s.parts)
		return true
	}
	return false
}

// shallow is Clone, but for the tensors that compact moves.
func shallow(s State) State {
	switch s := s.(type) {
	case *fixedState:
		c := &fixedState{s.names, s.kinds, slices.Clone(s.slots)}
		for i := range c.slots {
			c.slots[i].X = c.slots[i].X.Shallow()
		}
		return c
	case *parallelState:
		c := &parallelState{names: s.names}
		for _, part := range s.parts {
			c.parts = append(c.parts, shallow(part))
		}
		return c
	}
	return s.Clone()
}

// fixedTensors appends the tensors of the recurrences among states.
func fixedTensors(xs []*tensor.Tensor, states []State) []*tensor.Tensor {
	for _, s := range states {
		switch s := s.(type) {
		case *fixedState:
			for i := range s.slots {
				xs = append(xs, s.slots[i].X)
			}
		case *parallelState:
			xs = fixedTensors(xs, s.parts)
		}
	}
	return xs
}

func (s *fixedState) Size() int {
	n := 0
	for i := range s.slots {
		n += 4 * s.slots[i].X.Len()
	}
	return n
}

func (s *fixedState) Clone() State {
	c := &fixedState{s.names, s.kinds, slices.Clone(s.slots)}
	c.Detach()
	return c
}

func (s *fixedState) Detach() {
	for i := range s.slots {
		s.slots[i].X = s.slots[i].X.Clone()
	}
}

func (s *fixedState) Keep(int) {}

func (s *fixedState) Tensors(visit func(string, *tensor.Tensor)) {
	for i := range s.slots {
		visit(s.names[i], s.slots[i].X)
	}
}

func (s *fixedState) Restore(name string, shape []int, data []float32) error {
	for i := range s.slots {
		if s.names[i] == name {
			return restored(s.slots[i].X, name, shape, data)
		}
	}
	return fmt.Errorf("state has no part %q, only %q", name, s.names)
}

// restored copies a tensor that was saved under a name into x.
func restored(x *tensor.Tensor, name string, shape []int, data []float32) error {
	if !slices.Equal(ofOne(shape, x.Dims()), x.Shape()) || len(data) != x.Len() {
		return fmt.Errorf("state %q has shape %v and %d values, want %v", name, shape, len(data), x.Shape())
	}
	x.CopyFrom(data)
	return nil
}

// ofOne removes the leading axis of length 1, one sequence, that a saved shape may have before its n axes.
func ofOne(shape []int, dims int) []int {
	if len(shape) == dims+1 && shape[0] == 1 {
		return shape[1:]
	}
	return shape
}

// Recurrent tells whether a state is that of recurrences alone: tensors of a fixed size, with gradients that can be
// taken from one tape to another.
func Recurrent(s State) bool {
	switch s := s.(type) {
	case *fixedState:
		return true
	case *parallelState:
		return !slices.ContainsFunc(s.parts, func(part State) bool { return !Recurrent(part) })
	}
	return false
}
