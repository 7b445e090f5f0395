package mixer

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// fixedState is a state of a fixed number of tensors of a fixed size, as every recurrence has. Clones share its memory
// until one of them changes. Before that, the memory is copied.
type fixedState struct {
	names  []string
	kinds  []PartKind // nil for Numbers
	rounds string     // the tensor that may be stored in bfloat16, "" for none
	slots  []engine.Slot

	sharers atomic.Pointer[atomic.Int32] // number of states that share the memory of the slots, nil for 1
	room    [][]float32                  // for a copy of each slot: see MakeRoom
}

// newFixedState returns a state without memory: see Begin.
func newFixedState(names []string, shapes ...[]int) *fixedState {
	s := &fixedState{names: names, slots: make([]engine.Slot, len(shapes))}
	for i, shape := range shapes {
		s.slots[i].X = tensor.Shaped(shape...)
	}
	return s
}

// of sets the kinds of the tensors.
func (s *fixedState) of(kinds ...PartKind) *fixedState {
	s.kinds = kinds
	return s
}

// mayRound names the tensor that engines may store in bfloat16: see RoundStates.
func (s *fixedState) mayRound(name string) *fixedState {
	s.rounds = name
	return s
}

// RoundStates makes new states store the recurrent tensors that allow it in bfloat16. It must be called before Begin.
// It returns the number of these tensors.
func RoundStates(by engine.StateRounder, states ...State) (count int) {
	eachFixed(states, func(s *fixedState) {
		if i := slices.Index(s.names, s.rounds); i >= 0 {
			x := s.slots[i].X
			x.SetStorage(by.RoundedState(x.Len()))
			count++
		}
	})
	return count
}

func (s *fixedState) kind(name string) PartKind {
	if s.kinds == nil {
		return Numbers
	}
	return s.kinds[slices.Index(s.names, name)]
}

// Begin allocates the memory of states returned by NewState. It must be called once: it uses one piece of memory for
// all tensors of recurrences, in the order in which each token accesses them. It returns the states.
func Begin(states ...State) []State {
	tensor.Zeros(fixedTensors(nil, states)...)
	return states
}

// Clones returns copies of states. Copies of recurrences share their memory with the originals until one of them
// changes. Several goroutines may copy states that none of them changes.
func Clones(states []State) []State {
	copies := make([]State, len(states))
	for i, s := range states {
		copies[i] = shared(s)
	}
	return copies
}

// shared returns a Clone of a state. Recurrences share their memory.
func shared(s State) State {
	switch s := s.(type) {
	case *fixedState:
		return s.share()
	case *parallelState:
		return &parallelState{s.names, Clones(s.parts)}
	}
	return s.Clone()
}

// share returns a state with the same memory.
func (s *fixedState) share() *fixedState {
	n := s.sharers.Load()
	if n == nil {
		n = new(atomic.Int32)
		n.Store(1)
		if !s.sharers.CompareAndSwap(nil, n) {
			n = s.sharers.Load()
		}
	}
	n.Add(1)
	c := &fixedState{names: s.names, kinds: s.kinds, slots: slices.Clone(s.slots)}
	c.sharers.Store(n)
	for i := range c.slots {
		c.slots[i].X = c.slots[i].X.Shallow()
	}
	return c
}

// isShared reports whether another state has the same memory, or had it when it was dropped.
func (s *fixedState) isShared() bool {
	n := s.sharers.Load()
	return n != nil && n.Load() > 1
}

// own gives a state memory of its own. It must be called before the state changes.
func (s *fixedState) own() {
	if s.isShared() {
		MakeRoom(nil, s)
		for i := range s.slots {
			s.slots[i].X.Move(s.room[i])
		}
		s.sharers.Swap(nil).Add(-1)
	}
	s.room = nil
}

// MakeRoom allocates memory for copies of the recurrences among the states of a sequence that are about to change, in
// one piece, in the order in which each token accesses them. Each is copied just before it changes. The memory comes
// from spares, which may be nil.
func MakeRoom(spares *tensor.Spares, states ...State) {
	var xs []*tensor.Tensor
	var of []*fixedState
	eachFixed(states, func(s *fixedState) {
		if s.isShared() && s.room == nil {
			of = append(of, s)
			for i := range s.slots {
				xs = append(xs, s.slots[i].X)
			}
		}
	})
	if len(xs) == 0 {
		return
	}
	room := spares.Rooms(xs...)
	for _, s := range of {
		s.room, room = room[:len(s.slots)], room[len(s.slots):]
	}
}

// CopyTo returns copies of states, as Clones does, in the memory of to: earlier copies that are no longer used.
func CopyTo(to, states []State) []State {
	alone := true
	eachFixed(to, func(s *fixedState) { alone = alone && !s.isShared() })
	if !alone { // another state still uses that memory
		return Clones(states)
	}
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

// eachFixed calls f for the recurrences among states.
func eachFixed(states []State, f func(s *fixedState)) {
	for _, s := range states {
		switch s := s.(type) {
		case *fixedState:
			f(s)
		case *parallelState:
			eachFixed(s.parts, f)
		}
	}
}

// fixedTensors appends the tensors of the recurrences among states.
func fixedTensors(xs []*tensor.Tensor, states []State) []*tensor.Tensor {
	eachFixed(states, func(s *fixedState) {
		for i := range s.slots {
			xs = append(xs, s.slots[i].X)
		}
	})
	return xs
}

func (s *fixedState) Size() int {
	n := 0
	for i := range s.slots {
		x := s.slots[i].X
		if rounded, ok := x.Storage().(tensor.InMemory); ok {
			n += rounded.Bytes()
		} else {
			n += 4 * x.Len()
		}
	}
	return n
}

func (s *fixedState) Clone() State {
	return &fixedState{names: s.names, kinds: s.kinds, slots: s.copies()}
}

// copies returns copies of the slots.
func (s *fixedState) copies() []engine.Slot {
	slots := slices.Clone(s.slots)
	for i := range slots {
		slots[i].X = slots[i].X.Clone()
	}
	return slots
}

func (s *fixedState) Detach() {
	s.slots = s.copies()
	if n := s.sharers.Swap(nil); n != nil {
		n.Add(-1)
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
			s.own()
			return restored(s.slots[i].X, name, shape, data)
		}
	}
	return fmt.Errorf("state has no part %q, only %q", name, s.names)
}

// restored copies a saved tensor into x.
func restored(x *tensor.Tensor, name string, shape []int, data []float32) error {
	if !slices.Equal(ofOne(shape, x.Dims()), x.Shape()) || len(data) != x.Len() {
		return fmt.Errorf("state %q has shape %v and %d values, want %v", name, shape, len(data), x.Shape())
	}
	x.CopyFrom(data)
	return nil
}

// ofOne removes the leading axis of length 1, one sequence, that a saved shape may have in addition to dims axes.
func ofOne(shape []int, dims int) []int {
	if len(shape) == dims+1 && shape[0] == 1 {
		return shape[1:]
	}
	return shape
}

// Recurrent reports whether a state consists of recurrences only: tensors of a fixed size, whose gradients can be
// passed from one tape to another.
func Recurrent(s State) bool {
	switch s := s.(type) {
	case *fixedState:
		return true
	case *parallelState:
		return !slices.ContainsFunc(s.parts, func(part State) bool { return !Recurrent(part) })
	}
	return false
}
