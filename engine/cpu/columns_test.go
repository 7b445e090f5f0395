package cpu

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestColumnsAreTensors checks that a part of Columns is copied in and out like any tensor, and that writing it does
// not change its neighbors.
func TestColumnsAreTensors(t *testing.T) {
	eng := New(&engine.Step{})
	x := eng.New(3, 7)
	whole := make([]float32, x.Len())
	for i := range whole {
		whole[i] = float32(i)
	}
	x.CopyFrom(whole)
	parts := eng.Columns(x, 2, 4, 1)
	check := func(what string, got []float32, want ...float32) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", what, got, want)
		}
	}
	check("the middle", parts[1].Floats(), 2, 3, 4, 5, 9, 10, 11, 12, 16, 17, 18, 19)
	check("its copy", parts[1].Clone().Floats(), parts[1].Floats()...)
	check("the last", parts[2].Elements(), 6, 13, 20)
	row := make([]float32, 4)
	parts[1].CopyRowTo(row, 1)
	check("a row", row, 9, 10, 11, 12)
	tensor.CopyRows(parts[1], 0, parts[1], 1, 2)
	copy(whole[2:6], whole[9:13])
	copy(whole[9:13], whole[16:20])
	check("the whole after rows have moved", x.Floats(), whole...)
	parts[0].CopyFrom([]float32{-1, -2, -3, -4, -5, -6})
	for i := range 3 {
		whole[7*i], whole[7*i+1] = float32(-1-2*i), float32(-2-2*i)
	}
	check("the whole after a part was written", x.Floats(), whole...)
}

// TestColumnsWithoutGradient checks that the gradient of a part that no operation has used is zero, whatever was in its
// memory.
func TestColumnsWithoutGradient(t *testing.T) {
	tape := NewTape()
	tape.Record(true)
	x, ones := tape.New(2, 5), tape.Full(1, 2, 2)
	x.SetNeedsGrad(true)
	x.Fill(3)
	y := tape.Mul(tape.Columns(x, 1, 2, 2)[1], ones)
	for _, dirty := range [][]float32{tape.arena.Borrow(x.Len()), tape.arena.Borrow(x.Len())} {
		for i := range dirty {
			dirty[i] = -1
		}
		tape.arena.Return(dirty)
	}
	tape.BackwardFrom(y, []float32{1, 2, 3, 4})
	got := make([]float32, x.Len())
	if want := []float32{0, 1, 2, 0, 0, 0, 3, 4, 0, 0}; !tape.Grad(x, got) || !slices.Equal(got, want) {
		t.Errorf("found the gradient %v, want %v", got, want)
	}
}
