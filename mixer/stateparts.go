package mixer

import (
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// PartKind is the kind of a tensor of a state.
type PartKind int

const (
	// Numbers are numbers of the model; the first axis is channels or heads.
	Numbers PartKind = iota
	// PositionRows are numbers of the model with a row for each of some positions, (positions, channels), such as the
	// last inputs of a filter.
	PositionRows
	// BlockRows are PositionRows of an incomplete block. They are dropped when it is complete.
	BlockRows
	// Copied tensors are determined by other parts.
	Copied
	// Position is the position in the sequence.
	Position
	// Scores are weights of positions or heads.
	Scores
)

// Bookkeeping reports whether the tensor has no numbers of the model.
func (k PartKind) Bookkeeping() bool { return k == Position || k == Scores }

// StatePart is a tensor of a state.
type StatePart struct {
	Name     string // name in State.Tensors
	Kind     PartKind
	Integers *engine.Integers // elements stored as integers; nil for floats

	tensor func() *tensor.Tensor // may return a copy, made for each call
}

// NewStatePart returns a part of floats.
func NewStatePart(name string, x *tensor.Tensor) StatePart {
	return StatePart{Name: name, tensor: func() *tensor.Tensor { return x }}
}

// Shape returns the shape.
func (p StatePart) Shape() []int { return p.tensor().Shape() }

// Values returns the shape and a copy of the elements.
func (p StatePart) Values() (shape []int, values []float32) {
	x := p.tensor()
	return x.Shape(), x.Floats()
}

// StateParts returns the tensors of State.Tensors, in that order, without copies. They are valid until the state
// changes.
func StateParts(s State) (parts []StatePart) {
	switch s := s.(type) {
	case interface{ parts() []StatePart }:
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
	kinds, _ := s.(interface{ kind(name string) PartKind })
	s.Tensors(func(name string, x *tensor.Tensor) {
		p := NewStatePart(name, x)
		if kinds != nil {
			p.Kind = kinds.kind(name)
		}
		parts = append(parts, p)
	})
	return parts
}

// RestoreIntegers is like State.Restore with integers and a factor for each row, if the state stores that tensor as
// integers. Otherwise it does nothing, and returns false.
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

// StateRule describes the update of a part of a state for each token, where experiments with the state do not show it.
type StateRule struct {
	// Transition is R (n, n) of s[t] = f(x[t] + R s[t-1]). f is tanh for the first Tanhs numbers.
	Transition *tensor.Tensor
	Tanhs      int
	// Gates are a of S = a ⊙ S + w, for an S that changes only at the ends of blocks.
	Gates []float64
	// NotLinear reports that the part's update is not linear in the part.
	NotLinear bool
}

// StateRules returns rules for the parts of a mixer that need one, by name. Their tensors are valid as long as those of
// t.
func StateRules(t *autograd.Tape, m Mixer) map[string]StateRule {
	rules := map[string]StateRule{}
	each(m, func(prefix string, m Mixer) {
		if m, ok := m.(interface {
			stateRules(t *autograd.Tape) map[string]StateRule
		}); ok {
			for name, rule := range m.stateRules(t) {
				rules[prefix+name] = rule
			}
		}
	})
	return rules
}
