package model

import (
	"slices"
	"testing"
)

// TestTurnsTakeMemoryThatIsReady checks that a sequence that continues from a copy uses the memory that Warm has
// prepared, and has the same bits as with other memory.
func TestTurnsTakeMemoryThatIsReady(t *testing.T) {
	m := smallMamba(t)
	first := m.NewState()
	turn := func(s *State) []float32 {
		tape := m.NewTape()
		out := m.Forward(tape, []int32{1, 2, 3}, OneRow(3, s))
		y := make([]float32, out.Len())
		out.CopyTo(y)
		return y
	}
	turn(first)
	if m.Warm() {
		t.Error("memory is made ready that nobody wanted")
	}
	want := turn(first.Clone())
	calls := 0
	for m.Warm() {
		calls++
	}
	if got := turn(first.Clone()); calls == 0 || !slices.Equal(got, want) {
		t.Errorf("%d calls made memory ready; results are %v, want %v", calls, got[:3], want[:3])
	}
	if !m.Warm() {
		t.Error("a turn did not take the memory that was ready")
	}
}
