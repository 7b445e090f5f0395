package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// equalRows returns b rows of l positions without states.
func equalRows(b, l int) *Rows { return &Rows{Rows: engine.EqualRows(b, l)} }

// several holds sequences at the same position that continue together.
type several struct {
	m      Mixer
	states []State
	at     int
	handed *Handed
}

// begin returns b sequences before their first position.
func begin(m Mixer, b int) *several {
	s := &several{m: m}
	for range b {
		s.states = append(s.states, Begin(m.NewState())...)
	}
	return s
}

// forward continues the sequences with u (b·l, d).
func (s *several) forward(t *autograd.Tape, u *tensor.Tensor) *tensor.Tensor {
	r := &Rows{Rows: &engine.Rows{}, States: s.states, Handed: s.handed}
	l := u.Rows() / len(s.states)
	for range s.states {
		r.Add(l, s.at)
	}
	s.at += l
	return s.m.Forward(t, u, r)
}

func (s *several) clone() *several {
	c := &several{m: s.m, at: s.at}
	for _, x := range s.states {
		c.states = append(c.states, x.Clone())
	}
	return c
}

// restored returns new sequences whose states are saved from those of s and restored.
func (s *several) restored(t reporter) *several {
	c := begin(s.m, len(s.states))
	c.at = s.at
	for i, from := range s.states {
		from.Tensors(func(name string, x *tensor.Tensor) {
			data := read(x)
			if err := c.states[i].Restore(name, x.Shape(), data); err != nil {
				t.Fatalf("%v", err)
			}
			clear(data) // Restore must have copied the data
		})
	}
	return c
}

func (s *several) detach() {
	for _, x := range s.states {
		x.Detach()
	}
}

func (s *several) keep(n int) {
	for _, x := range s.states {
		x.Keep(n)
	}
}

func (s *several) size() (n int) {
	for _, x := range s.states {
		n += x.Size()
	}
	return n
}

// parts returns the states' tensors, those of all sequences concatenated.
func (s *several) parts() map[string][]float32 {
	out := map[string][]float32{}
	for _, x := range s.states {
		for name, v := range parts(x) {
			out[name] = append(out[name], v...)
		}
	}
	return out
}

// slots returns the states x (b, …) of b sequences for an operation.
func slots(b int, x *tensor.Tensor) engine.Slots {
	all, n := read(x), x.Len()/b
	out := make(engine.Slots, b)
	for i := range out {
		one := leaf(all[i*n:][:n], append([]int{n}, 1)...)
		one.SetNeedsGrad(x.NeedsGrad())
		out[i] = &engine.Slot{X: one}
	}
	return out
}

// after returns the states in slots, concatenated.
func after(s engine.Slots) (out []float32) {
	for i := range s {
		out = append(out, read(s.At(i))...)
	}
	return out
}
