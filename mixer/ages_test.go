package mixer

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestRowsOfAllAges checks that a row gives the same bits, y and state, alone and together with rows of other lengths,
// at other positions of their sequences, or without a state.
func TestRowsOfAllAges(t *testing.T) {
	ages, lengths := []int{30, 0, -1, 7, 61, -1, 17}, []int{1, 26, 40, 1, 9, 3, 60} // -1 for no state
	for _, v := range variants() {
		for _, record := range []bool{false, true} {
			name := v.name
			if record {
				name += "/recorded"
			}
			t.Run(name, func(t *testing.T) {
				m := v.mixer(t)
				together := &Rows{Rows: &engine.Rows{}}
				var us, ys, got []float32
				var states []State
				for i, age := range ages {
					u := sequences(uint64(20+i), 1, max(0, age)+lengths[i])
					alone := &Rows{Rows: engine.NewRows()}
					var s State
					if age >= 0 {
						s = Begin(m.NewState())[0]
					}
					if age > 0 {
						before := &Rows{Rows: engine.NewRows(age), States: []State{s}}
						m.Forward(newTape(), tensor.FromSlice(u.Data()[:age*dModel], age, dModel), before)
					}
					alone.Add(lengths[i], max(0, age))
					together.Add(lengths[i], max(0, age))
					piece := u.Data()[max(0, age)*dModel:]
					us = append(us, piece...)
					if s == nil {
						states = append(states, nil)
						alone.States, together.States = append(alone.States, nil), append(together.States, nil)
					} else {
						states = append(states, s)
						alone.States, together.States = append(alone.States, s), append(together.States, s.Clone())
					}
					tape := newTape()
					tape.Record(record)
					ys = append(ys, read(m.Forward(tape, tensor.FromSlice(piece, lengths[i], dModel), alone))...)
					if s != nil {
						s.Detach()
					}
				}
				tape := newTape()
				tape.Record(record)
				got = read(m.Forward(tape, tensor.FromSlice(us, len(us)/dModel, dModel), together))
				for i := range ages {
					from, to := together.From(i)*dModel, (together.From(i)+together.Len(i))*dModel
					if !slices.Equal(got[from:to], ys[from:to]) {
						near(t, "y", got[from:to], ys[from:to], 0)
						t.Errorf("row %d of age %d and length %d: y differs from that of the row alone", i,
							ages[i], lengths[i])
					}
					if states[i] == nil {
						continue
					}
					want := parts(states[i])
					for name, x := range parts(together.States[i]) {
						if !slices.Equal(x, want[name]) {
							t.Errorf("row %d of age %d and length %d: state %s differs", i, ages[i], lengths[i], name)
						}
					}
				}
			})
		}
	}
}
