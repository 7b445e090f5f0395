package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Rows describes the input of Forward: sequences or pieces of them, and the states from which they continue.
type Rows struct {
	*engine.Rows
	// States are the states of the rows. A row with a nil state starts from zero, and its state is dropped. If States
	// is empty, all are nil. Two rows must not have the same state.
	States []State
	// Steps are the times from each position's predecessor to it, in time steps of the model, (n); nil if all are 1.
	// Mixers whose Traits have Steps set use them, others ignore them.
	Steps []float32
	// Handed is shared by the layers of a call; nil for a single layer.
	Handed *Handed

	// Parts of the states, collected for an operation, which does not keep the slices.
	slots    []engine.Slots
	kv       []*engine.KVCache
	rows     [2][]*engine.RowCache
	long     [][]*engine.ConvCache
	bucketed []*engine.BucketCache
	spatten  []*engine.SpAttenState
	parts    []*Rows // rows with a part of each state
}

// state returns the state of row i, or nil if it has none.
func (r *Rows) state(i int) State {
	if len(r.States) == 0 {
		return nil
	}
	return r.States[i]
}

// carry reports whether any row has a state.
func (r *Rows) carry() bool {
	for _, s := range r.States {
		if s != nil {
			return true
		}
	}
	return false
}

// stepped returns dt (n, c), the discretization step of each position, multiplied by Steps. With r = Steps, the
// continuous system h' = A h + B u then advances by r[t]·dt[t]: Abar[t] = exp(r[t]·dt[t]·A).
func (r *Rows) stepped(t *autograd.Tape, dt *tensor.Tensor) *tensor.Tensor {
	if r.Steps == nil {
		return dt
	}
	return t.Mul(dt, r.times(t, dt.Dim(-1)))
}

// times returns Steps repeated for each of c channels, (n, c).
func (r *Rows) times(t *autograd.Tape, c int) *tensor.Tensor {
	if len(r.Steps) != r.Total() {
		panic(fmt.Sprintf("mixer: %d steps of time for %d positions", len(r.Steps), r.Total()))
	}
	wide := make([]float32, 0, len(r.Steps)*c)
	for _, x := range r.Steps {
		for range c {
			wide = append(wide, x)
		}
	}
	by := t.New(len(r.Steps), c)
	by.CopyFrom(wide)
	return by
}

// Forget drops all references to states.
func (r *Rows) Forget() {
	clear(r.States)
	r.States = r.States[:0]
	for _, x := range r.slots {
		clear(x[:cap(x)])
	}
	for _, x := range r.rows {
		clear(x[:cap(x)])
	}
	for _, x := range r.long {
		clear(x[:cap(x)])
	}
	clear(r.kv[:cap(r.kv)])
	clear(r.bucketed[:cap(r.bucketed)])
	clear(r.spatten[:cap(r.spatten)])
	for _, p := range r.parts {
		p.Forget()
	}
}

// collect puts part i of each row's state into out, in the form that an operation requires, nil for a row without a
// state. It returns nil if no row has a state.
func collect[S State, T any](r *Rows, out *[]*T, i int, part func(s S, i int) *T) []*T {
	if len(r.States) != 0 && len(r.States) != r.Count() {
		panic(fmt.Sprintf("mixer: %d states for %d rows", len(r.States), r.Count()))
	}
	if !r.carry() {
		return nil
	}
	*out = (*out)[:0]
	for _, s := range r.States {
		if s == nil {
			*out = append(*out, nil)
			continue
		}
		*out = append(*out, part(s.(S), i))
	}
	return *out
}

// fixed returns the slots of part i of the rows' states, for an operation that changes them. The states must be
// fixedStates.
func (r *Rows) fixed(i int) engine.Slots {
	return collect(r, r.slotsOf(i), i, func(s *fixedState, i int) *engine.Slot {
		s.own()
		return &s.slots[i]
	})
}

// slotsOf returns the memory for the slots of part i.
func (r *Rows) slotsOf(i int) *[]*engine.Slot {
	for len(r.slots) <= i {
		r.slots = append(r.slots, nil)
	}
	return (*[]*engine.Slot)(&r.slots[i])
}

// caches returns part i, 0 or 1, of the rows' states, which must be rowStates.
func (r *Rows) caches(i int) []*engine.RowCache {
	return collect(r, &r.rows[i], i, func(s *rowState, i int) *engine.RowCache { return &s.rows[i] })
}
