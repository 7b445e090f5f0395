package model

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/tensor"
)

// Rows describes the input of one call of a model: sequences, or pieces of some, one after another. They may have any
// lengths and start at any positions, and are independent of each other. The zero value has no rows.
//
// A recording tape uses its rows until Reset. They must not change before.
type Rows struct {
	at     engine.Rows
	states []*State
	steps  []float32  // see mixer.Rows
	layer  mixer.Rows // with the states of the current layer
	handed mixer.Handed
	kept   []*tensor.Tensor // result of keep
}

// EqualRows returns b sequences of l positions each, without states before or after.
func EqualRows(b, l int) *Rows {
	r := &Rows{}
	for range b {
		r.Add(l, nil)
	}
	return r
}

// OneRow returns the next l positions of one sequence.
func OneRow(l int, s *State) *Rows {
	r := &Rows{}
	r.Add(l, s)
	return r
}

// Add appends a row of l positions of another sequence. The row continues from the state s, which Forward then updates.
// With a nil state it starts at zero and its state is dropped. No two rows may have the same state.
func (r *Rows) Add(l int, s *State) { r.add(r.at.Add, l, s) }

// AddStepped is Add, but the results have the bits of reading the positions one at a time.
func (r *Rows) AddStepped(l int, s *State) { r.add(r.at.AddStepped, l, s) }

func (r *Rows) add(row func(length, start int), l int, s *State) {
	at := 0
	if s != nil {
		at = s.Position
	}
	row(l, at)
	r.states = append(r.states, s)
}

// AddDocuments adds n positions of a sequence for m, as a row for each document in them. Documents start at borders,
// which ascend, and are independent of each other. The first row continues from state unless that is nil or a document
// starts there. AddDocuments returns the state from which the sequence continues.
func (r *Rows) AddDocuments(m *Model, n int, borders []int, state *State) *State {
	carry, from := state != nil, 0
	for i := range len(borders) + 1 {
		to, last := n, i == len(borders)
		if !last {
			to = borders[i]
		}
		if i > 0 && carry {
			if state = nil; last {
				state = m.NewState()
			}
		}
		if to > from {
			r.Add(to-from, state)
		}
		from = to
	}
	return state
}

// Train switches dropout on, with a seed for each row.
func (r *Rows) Train(seeds ...uint64) { r.at.Train(seeds) }

// Clear removes all rows and reuses their memory for new ones. No tape may be using them.
func (r *Rows) Clear() {
	r.at.Clear()
	clear(r.states)
	r.states, r.steps = r.states[:0], nil
	r.layer.Forget()
	r.handed = mixer.Handed{}
	clear(r.kept)
}

// Count returns the number of rows.
func (r *Rows) Count() int { return r.at.Count() }

// Total returns the number of positions of all rows.
func (r *Rows) Total() int { return r.at.Total() }

// Len returns the number of positions of row i.
func (r *Rows) Len(i int) int { return r.at.Len(i) }

// of returns the rows with the states of one layer.
func (r *Rows) of(layer int) *mixer.Rows {
	r.layer.Rows, r.layer.States, r.layer.Steps, r.layer.Handed = &r.at, r.layer.States[:0], r.steps, &r.handed
	for _, s := range r.states {
		var m mixer.State
		if s != nil {
			m = s.Mixers[layer]
		}
		r.layer.States = append(r.layer.States, m)
	}
	return &r.layer
}

// remember reports whether a row has a state.
func (r *Rows) remember() bool {
	return slices.ContainsFunc(r.states, func(s *State) bool { return s != nil })
}

// keep returns the tensors that later layers need: the stream and the values that layers have handed on.
func (r *Rows) keep(residual, hidden *tensor.Tensor) []*tensor.Tensor {
	r.kept = append(r.kept[:0], residual, hidden)
	if v := r.handed.Values; v != nil {
		r.kept = append(r.kept, v)
	}
	return r.kept
}

// makeRoom allocates memory for states that share theirs with copies.
func (r *Rows) makeRoom(spares *tensor.Spares) {
	for _, s := range r.states {
		if s != nil {
			mixer.MakeRoom(spares, s.Mixers...)
		}
	}
}

// advance adds the positions of the rows to the positions that their states have seen.
func (r *Rows) advance() {
	for i, s := range r.states {
		if s == nil {
			continue
		}
		if s.Position != r.at.Start(i) {
			panic(fmt.Sprintf("model: row %d is for position %d of its sequence, which is at %d", i, r.at.Start(i),
				s.Position))
		}
		s.Position += r.at.Len(i)
	}
}
