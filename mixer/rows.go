package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Rows describe the input of Forward: sequences, or pieces of some, and the state that each goes on from.
type Rows struct {
	*engine.Rows
	// States are those of the rows. A row of a nil state starts from zero and keeps nothing; empty States are nil for
	// all. No two rows may have the same one.
	States []State
	// Steps are how long each position comes behind the one before, in time steps of the model, (n); nil where that is
	// 1 everywhere. A mixer whose Traits say Steps goes by them, others overlook them.
	Steps []float32
	// Handed is shared by the layers of a call; nil for a layer alone.
	Handed *Handed

	// Parts of the states, collected for one operation, which does not keep the slices.
	slots    []engine.Slots
	kv       []*engine.KVCache
	rows     [2][]*engine.RowCache
	long     [][]*engine.ConvCache
	bucketed []*engine.BucketCache
	spatten  []*engine.SpAttenState
	parts    []*Rows // with a part of each state
}

// state is the state of row i, nil if it has none.
func (r *Rows) state(i int) State {
	if len(r.States) == 0 {
		return nil
	}
	return r.States[i]
}

// carry reports whether some row has a state.
func (r *Rows) carry() bool {
	for _, s := range r.States {
		if s != nil {
			return true
		}
	}
	return false
}

// stepped is dt (n, c), the discretization step of each position, times how long the position comes behind the one
// before: with r = Steps the continuous system h' = A h + B u then goes on by r[t]·dt[t], Abar[t] = exp(r[t]·dt[t]·A).
func (r *Rows) stepped(t *autograd.Tape, dt *tensor.Tensor) *tensor.Tensor {
	if r.Steps == nil {
		return dt
	}
	return t.Mul(dt, r.times(t, dt.Dim(-1)))
}

// times is Steps for each of c channels, (n, c).
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

// Forget lets go of all states.
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

// collect puts part i of each row's state into out, in the form that an operation takes; nil for a row without a state.
// It returns nil if no row has one.
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

// fixed are the slots of part i of the rows' states, which are fixedStates, about to change.
func (r *Rows) fixed(i int) engine.Slots {
	return collect(r, r.slotsOf(i), i, func(s *fixedState, i int) *engine.Slot {
		s.own()
		return &s.slots[i]
	})
}

// slotsOf is the memory for the slots of part i.
func (r *Rows) slotsOf(i int) *[]*engine.Slot {
	for len(r.slots) <= i {
		r.slots = append(r.slots, nil)
	}
	return (*[]*engine.Slot)(&r.slots[i])
}

// caches are part i, 0 or 1, of the rows' states, which are rowStates.
func (r *Rows) caches(i int) []*engine.RowCache {
	return collect(r, &r.rows[i], i, func(s *rowState, i int) *engine.RowCache { return &s.rows[i] })
}
