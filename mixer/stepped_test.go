package mixer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestSteppedRows checks that a stepped row has the same bits, in its results and in its state, as consecutive rows of
// one position, whatever was read before, whatever else is in the call, and whether or not the engine steps.
func TestSteppedRows(t *testing.T) {
	for _, v := range variants() {
		m := v.mixer(t)
		t.Run(v.name, rapid.MakeCheck(func(t *rapid.T) {
			before := rapid.SliceOfN(rapid.IntRange(0, 40), 3, 3).Draw(t, "before")
			l := rapid.IntRange(1, 9).Draw(t, "stepped")
			// Sequences 0 and 2 are stepped, and 1 is read as a whole.
			xs := make([]*tensor.Tensor, 3)
			for i := range xs {
				xs[i] = sequences(uint64(i), 1, before[i]+l+i)
			}
			part := func(i, lo, hi int) []float32 { return xs[i].Data()[lo*dModel : hi*dModel] }
			tape := newTape()
			if rapid.Bool().Draw(t, "no steps") {
				tape = tape.Through(func(e engine.Engine) engine.Engine { return struct{ engine.Engine }{e} })
			}
			read1 := func(r *Rows, x []float32) []float32 {
				return read(Run(tape, m, tensor.FromSlice(x, len(x)/dModel, dModel), r))
			}
			var states [2][3]State
			for k := range states {
				for i := range xs {
					states[k][i] = Begin(m.NewState())[0]
					if before[i] > 0 {
						r := &Rows{Rows: engine.NewRows(before[i]), States: []State{states[k][i]}}
						read1(r, part(i, 0, before[i]))
					}
				}
			}
			all, in := &Rows{Rows: &engine.Rows{}}, []float32(nil)
			for i := range xs {
				if i == 1 {
					all.Add(l+i, before[i])
				} else {
					all.AddStepped(l+i, before[i])
				}
				all.States, in = append(all.States, states[0][i]), append(in, part(i, before[i], before[i]+l+i)...)
			}
			got := read1(all, in)
			var want []float32
			for i := range xs {
				step := 1
				if i == 1 {
					step = l + i
				}
				for at := before[i]; at < before[i]+l+i; at += step {
					r := &Rows{Rows: &engine.Rows{}, States: []State{states[1][i]}}
					r.Add(step, at)
					want = append(want, read1(r, part(i, at, at+step))...)
				}
			}
			for at := range got {
				if got[at] != want[at] {
					t.Fatalf("position %d of %d: %v, want %v", at/dModel, len(got)/dModel, got[at], want[at])
				}
			}
			for i := range xs {
				after := parts(states[1][i])
				for name, x := range parts(states[0][i]) {
					if !slices.Equal(x, after[name]) {
						t.Fatalf("another state %s after sequence %d", name, i)
					}
				}
			}
		}))
	}
}
