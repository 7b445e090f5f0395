package mixer

import (
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// This file combines mixers, for layers that are not a single mixer.

// Alone returns a feed-forward part as a mixer, which maps each position by itself.
func Alone(part nn.FeedForward) Mixer { return alone{part} }

// PartOf returns the feed-forward part that m consists of, perhaps scaled, or nil for another mixer.
func PartOf(m Mixer) nn.FeedForward {
	switch m := m.(type) {
	case alone:
		return m.part
	case scaled:
		return PartOf(m.Mixer)
	}
	return nil
}

type alone struct{ part nn.FeedForward }

func (m alone) Forward(t *autograd.Tape, u *tensor.Tensor, _ *Rows) *tensor.Tensor {
	return m.part.Forward(t, u)
}
func (m alone) NewState() State                        { return newFixedState(nil) }
func (m alone) Traits() Traits                         { return Traits{StepsRows: true} }
func (m alone) Params(prefix string, visit nn.Visitor) { m.part.Params(prefix, visit) }

// Scaled returns a mixer whose inputs and outputs are multiplied by numbers.
func Scaled(m Mixer, in, out float64) Mixer {
	if in == 1 && out == 1 {
		return m
	}
	return scaled{m, in, out, nil}
}

// NormedAfter returns a mixer whose outputs are normalized, as in Olmo's blocks: x + norm(mixer(x)).
func NormedAfter(m Mixer, norm nn.AddNorm) Mixer { return scaled{m, 1, 1, norm} }

type scaled struct {
	Mixer
	in, out float64
	after   nn.AddNorm // nil for none
}

func (m scaled) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	y := t.Scale(Run(t, m.Mixer, t.Scale(u, m.in), r), m.out)
	if m.after != nil {
		_, y = m.after.AddForward(t, y, nil)
	}
	return y
}

// Params visits the parameters of the mixer and of the norm after it.
func (m scaled) Params(prefix string, visit nn.Visitor) {
	m.Mixer.Params(prefix, visit)
	if m.after != nil {
		m.after.Params(prefix+"norm_after.", visit)
	}
}

// Parallel returns the sum of several mixers of the same input. Their names are prefixes of their parameters and
// states.
func Parallel(names []string, parts []Mixer) Mixer { return &parallel{names, parts} }

type parallel struct {
	names []string
	parts []Mixer
}

func (m *parallel) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	y := Run(t, m.parts[0], u, r.Part(0))
	for i, part := range m.parts[1:] {
		y = t.Add(y, Run(t, part, u, r.Part(i+1)))
	}
	return y
}

func (m *parallel) NewState() State {
	states := make([]State, len(m.parts))
	for i, part := range m.parts {
		states[i] = part.NewState()
	}
	return Together(m.names, states)
}

// Traits returns the combined traits of all parts.
func (m *parallel) Traits() (all Traits) {
	for _, part := range m.parts {
		all = all.And(part.Traits())
	}
	all.StepsRows = true // each part in its own way
	return all
}

// And returns the traits of a combination of both.
func (t Traits) And(one Traits) Traits {
	all := t
	all.LooksAhead = t.LooksAhead || one.LooksAhead
	all.Convolves = t.Convolves || one.Convolves
	all.Steps = t.Steps || one.Steps
	all.ByPosition = t.ByPosition || one.ByPosition
	all.Growth += one.Growth
	if t.MaxLength == 0 || one.MaxLength > 0 && one.MaxLength < t.MaxLength {
		all.MaxLength = one.MaxLength
	}
	if one.Multiple > 0 {
		all.Multiple = max(1, t.Multiple) * one.Multiple // a multiple of both
	}
	return all
}

func (m *parallel) Params(prefix string, visit nn.Visitor) {
	for i, part := range m.parts {
		part.Params(prefix+m.names[i]+".", visit)
	}
}

// parallelState holds the states of several mixers.
type parallelState struct {
	names []string
	parts []State
}

// Together returns one state for several parts of a layer. The names are prefixes of the names of their tensors.
func Together(names []string, parts []State) State { return &parallelState{names, parts} }

// Part returns the rows with part i of their states, which must be parallelStates.
func (r *Rows) Part(i int) *Rows {
	for len(r.parts) <= i {
		r.parts = append(r.parts, &Rows{})
	}
	p := r.parts[i]
	p.Rows, p.States, p.Steps, p.Handed = r.Rows, p.States[:0], r.Steps, r.Handed
	for _, s := range r.States {
		var part State
		if s != nil {
			part = s.(*parallelState).parts[i]
		}
		p.States = append(p.States, part)
	}
	return p
}

func (s *parallelState) Size() (n int) {
	for _, part := range s.parts {
		n += part.Size()
	}
	return n
}

// Pages visits the pages of each part.
func (s *parallelState) Pages(f func(page *engine.Page, bytes, seen int)) { Pages(f, s.parts...) }

func (s *parallelState) Clone() State {
	c := &parallelState{names: s.names}
	for _, part := range s.parts {
		c.parts = append(c.parts, part.Clone())
	}
	return c
}

func (s *parallelState) Detach() {
	for _, part := range s.parts {
		part.Detach()
	}
}

func (s *parallelState) Keep(n int) {
	for _, part := range s.parts {
		part.Keep(n)
	}
}

// Tensors visits the tensors of each part, as NAME.PART.
func (s *parallelState) Tensors(visit func(string, *tensor.Tensor)) {
	for i, part := range s.parts {
		part.Tensors(func(name string, x *tensor.Tensor) { visit(s.names[i]+"."+name, x) })
	}
}

func (s *parallelState) Restore(name string, shape []int, data []float32) error {
	for i, part := range s.parts {
		if rest, ok := strings.CutPrefix(name, s.names[i]+"."); ok {
			return part.Restore(rest, shape, data)
		}
	}
	return fmt.Errorf("state has no part %q, only those of %q", name, s.names)
}
