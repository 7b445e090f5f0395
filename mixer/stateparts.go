package mixer

import (
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// PartKind says what a tensor of a state holds.
type PartKind int

const (
	// Numbers are of the model; the first axis is channels or heads.
	Numbers PartKind = iota
	// PositionRows are of the model, too: a row for each of some positions, (positions, channels), such as the last
	// inputs of a filter.
	PositionRows
	// BlockRows are such rows of a block that is not complete, after which they are forgotten.
	BlockRows
	// Copied is what other parts determine.
	Copied
	// Position says how far the sequence is.
	Position
	// Scores weigh positions or heads.
	Scores
)

// Bookkeeping reports whether the tensor has no numbers of the model.
func (k PartKind) Bookkeeping() bool { return k == Position || k == Scores }

// StatePart is a tensor of a state.
type StatePart struct {
	Name     string // by which State.Tensors visits it
	Kind     PartKind
	Integers *engine.Integers // what its elements are held as, nil for floats

	tensor func() *tensor.Tensor // perhaps a copy, which is made for each call
}

// NewStatePart is a part of floats.
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

// StateParts are what State.Tensors visits, in that order, without copies. They are valid until the state changes.
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

// StateRule is how a part of a state goes on from token to token, where an experiment with the state does not show it.
type StateRule struct {
	// Transition is R (n, n) of s[t] = f(x[t] + R s[t-1]), where f is tanh for the first Tanhs numbers.
	Transition *tensor.Tensor
	Tanhs      int
	// Gates are a of S = a ⊙ S + w, where S changes: at the ends of blocks.
	Gates []float64
	// NotLinear is a part that does not go on linearly in itself.
	NotLinear bool
}

// StateRules are the rules of a mixer's parts, by name, of those that need one. Tensors live as long as what t has
// made.
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
