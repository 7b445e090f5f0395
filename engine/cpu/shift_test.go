package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestShiftStepsSplit checks that steps of many rows, which are divided by channels, equal those of each row by itself.
func TestShiftStepsSplit(t *testing.T) {
	const rows, n, d = 2 * grain / (channelsPerStep * 16), 16, 4*channelsPerStep + 5
	rng := rand.New(rand.NewPCG(4, 4))
	b, c, skip, x := randomTensor(rng, d, n), randomTensor(rng, d, n), randomTensor(rng, d), randomTensor(rng, rows, d)
	var slots, alone engine.Slots
	for range rows {
		s := randomTensor(rng, d, n)
		slots = append(slots, &engine.Slot{X: s})
		alone = append(alone, &engine.Slot{X: tensor.FromSlice(slices.Clone(s.Data()), d, n)})
	}
	got := NewTape().ShiftSSM(x, b, c, skip, engine.EqualRows(rows, 1), slots)
	for i := range rows {
		one := tensor.FromSlice(x.Data()[i*d:][:d], 1, d)
		want := NewTape().ShiftSSM(one, b, c, skip, engine.EqualRows(1, 1), alone[i:i+1])
		if !slices.Equal(got.Data()[i*d:][:d], want.Data()) || !slices.Equal(slots[i].X.Data(), alone[i].X.Data()) {
			t.Fatalf("row %d is not as it is alone", i)
		}
	}
}
