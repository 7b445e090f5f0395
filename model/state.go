package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/tensor"
)

// State carries one sequence from row to row: the states of the model's mixers and the number of positions that they
// have seen.
type State struct {
	Mixers   []mixer.State
	Position int
	// Guesses holds what the model's MTP head remembers, or nil. It has no effect on results, and is not saved.
	Guesses *Guesses

	on engine.Backend
}

// Failure returns the failure of the device that the numbers of the state come from: see engine.Failure.
func (s *State) Failure() error { return engine.Failure(s.on) }

// NewState returns the state of a sequence before its first position.
func (bb *Backbone) NewState() *State {
	s := &State{on: bb.backend}
	for _, b := range bb.Blocks {
		s.Mixers = append(s.Mixers, b.newState())
	}
	if bb.rounder != nil {
		mixer.RoundStates(bb.rounder, s.Mixers...)
	}
	mixer.Begin(s.Mixers...)
	return s
}

// SetStatePrecision sets the precision of the states of sequences that begin from now on to Float32 or BF16. BF16
// applies to the states of the SSM in mamba2, which take most of the memory of a state. They are rounded after each
// token, or after each piece of a text that is read, and computed with in float32. Steps of many sequences then read
// and write half as many bytes. It returns an error if no layer has such a state, or if the engine of the model cannot
// hold it.
func (bb *Backbone) SetStatePrecision(p engine.Precision) error {
	bb.rounder = nil
	switch p {
	case engine.Float32:
		return nil
	case engine.BF16:
	default:
		return fmt.Errorf("state precision: found %s, want float32 or bf16", p)
	}
	by, ok := bb.backend.(engine.StateRounder)
	if !ok {
		return fmt.Errorf("state precision: found bf16 and a model on %s, want float32 there, or the model on the "+
			"processor", bb.backend.Kind())
	}
	var kinds []string
	for _, b := range bb.Blocks {
		if mixer.RoundStates(by, b.newState()) > 0 {
			bb.rounder = by
			return nil
		}
		if !slices.Contains(kinds, b.Kind) {
			kinds = append(kinds, b.Kind)
		}
	}
	return fmt.Errorf("state precision: found bf16 and layers of %s, want layers of mamba2, or float32",
		strings.Join(kinds, ", "))
}

// StatePrecision returns the precision that SetStatePrecision has set.
func (bb *Backbone) StatePrecision() engine.Precision {
	if bb.rounder != nil {
		return engine.BF16
	}
	return engine.Float32
}

// Growth returns the number of bytes that each token adds to the state of a sequence, and the kinds of mixers whose
// states grow.
func (bb *Backbone) Growth() (bytes int, kinds []string) {
	for _, b := range bb.Blocks {
		if n := b.traits().Growth; n > 0 {
			bytes += n
			if !slices.Contains(kinds, b.Kind) {
				kinds = append(kinds, b.Kind)
			}
		}
	}
	return bytes, kinds
}

// Size returns the current size of the state in bytes.
func (s *State) Size() int {
	n := 0
	for _, x := range s.Mixers {
		n += x.Size()
	}
	if g := s.Guesses; g != nil {
		n += g.State.Size() + 4*len(g.Hidden)
	}
	return n
}

// Pages calls f for each part of the state that clones may share with it. page identifies the part. bytes is its
// memory, and counted is the number of bytes that Size counts for it.
func (s *State) Pages(f func(page any, bytes, counted int)) {
	mixer.Pages(func(page *engine.Page, bytes, seen int) { f(page, bytes, seen) }, s.Mixers...)
	if s.Guesses != nil {
		s.Guesses.State.Pages(f)
	}
}

// Clone returns an independent copy, to fork a sequence.
func (s *State) Clone() *State {
	return &State{on: s.on, Position: s.Position, Mixers: mixer.Clones(s.Mixers), Guesses: s.Guesses.clone(nil)}
}

// CopyTo is Clone into the memory of an earlier clone, which must not be used any more. It returns to.
func (s *State) CopyTo(to *State) *State {
	to.on, to.Position = s.on, s.Position
	to.Mixers, to.Guesses = mixer.CopyTo(to.Mixers, s.Mixers), s.Guesses.clone(to.Guesses)
	return to
}

// Detach detaches the state from the tape: gradients stop here, and the tape can be reset.
func (s *State) Detach() {
	for _, x := range s.Mixers {
		x.Detach()
	}
}

// Keep limits the parts that grow with the sequence (the keys and values of attention) to the last n positions.
func (s *State) Keep(n int) {
	for _, x := range s.Mixers {
		x.Keep(n)
	}
	if s.Guesses != nil {
		s.Guesses.State.Keep(n)
	}
}

// PositionName is the name of the number of positions in State.Tensors. The tensor has two numbers, the multiple of
// positionUnit and the remainder, because a float32 is exact only for small integers.
const (
	PositionName = "position"
	positionUnit = 1 << 20
)

// Tensors visits every tensor of the state, for saving, under names such as "layers.0.diag" and "position".
func (s *State) Tensors(visit func(name string, x *tensor.Tensor)) {
	visit(PositionName, s.position())
	for i, m := range s.Mixers {
		m.Tensors(func(name string, x *tensor.Tensor) { visit(fmt.Sprintf("layers.%d.%s", i, name), x) })
	}
}

// position returns Position as a tensor.
func (s *State) position() *tensor.Tensor {
	return tensor.FromSlice([]float32{float32(s.Position / positionUnit), float32(s.Position % positionUnit)}, 2)
}

// StatePart is a tensor of a state.
type StatePart = mixer.StatePart

// Parts visits the tensors that Tensors visits, under the same names and without copies. They are valid until the state
// changes.
func (s *State) Parts(visit func(p StatePart)) {
	visit(mixer.NewStatePart(PositionName, s.position()))
	for i, m := range s.Mixers {
		for _, p := range mixer.StateParts(m) {
			p.Name = fmt.Sprintf("layers.%d.%s", i, p.Name)
			visit(p)
		}
	}
}

// Names returns the names of the tensors of the state.
func (s *State) Names() (names []string) {
	s.Parts(func(p StatePart) { names = append(names, p.Name) })
	return names
}

// Restore sets one tensor of the state to a value from Tensors. Several goroutines may set tensors of different layers
// at the same time.
func (s *State) Restore(name string, shape []int, data []float32) error {
	if name == PositionName {
		if len(shape) != 1 || len(data) != 2 || !(data[0] >= 0 && data[0] < positionUnit && data[1] >= 0 &&
			data[1] < positionUnit) {
			return fmt.Errorf("state: found %q of shape %v, want two numbers of positions", name, shape)
		}
		s.Position = int(data[0])*positionUnit + int(data[1])
		return nil
	}
	layer, part, err := s.layer(name)
	if err != nil {
		return err
	}
	return layer.Restore(part, shape, data)
}

// RestoreIntegers is Restore for a tensor that the state holds as integers times a factor for each row. For other
// tensors it does nothing and returns false.
func (s *State) RestoreIntegers(name string, shape []int, q []int8, factors []float32) (done bool, err error) {
	layer, part, err := s.layer(name)
	if err != nil {
		return false, nil // reported by Restore
	}
	return mixer.RestoreIntegers(layer, part, shape, q, factors)
}

// layer returns the state of the layer in a tensor's name, and the tensor's name within that layer.
func (s *State) layer(name string) (mixer.State, string, error) {
	var i int
	var part string
	if _, err := fmt.Sscanf(name, "layers.%d.%s", &i, &part); err != nil || i < 0 || i >= len(s.Mixers) {
		return nil, "", fmt.Errorf("state: found tensor %q, want layers.I.NAME with I below %d", name, len(s.Mixers))
	}
	return s.Mixers[i], part, nil
}

// Recurrent reports whether all layers have states of a fixed size, with gradients that can be carried from one tape to
// another. Otherwise it returns the first layer that has no such state.
func (bb *Backbone) Recurrent() (ok bool, layer int, kind string) {
	for i, b := range bb.Blocks {
		if !mixer.Recurrent(b.newState()) {
			return false, i, b.Kind
		}
	}
	return true, 0, ""
}

// Leaves returns the tensors of a state of recurrent layers, in a fixed order.
func (s *State) Leaves() (all []*tensor.Tensor) {
	for _, m := range s.Mixers {
		m.Tensors(func(_ string, x *tensor.Tensor) { all = append(all, x) })
	}
	return all
}
