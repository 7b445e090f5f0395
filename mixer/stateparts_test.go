package mixer

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/tensor"
)

// TestStatePartsAreTheTensors checks that the parts of a state, also of sums of mixers, have the names and elements of
// its tensors, in the same order.
func TestStatePartsAreTheTensors(t *testing.T) {
	fixed := newFixedState([]string{"a", "b"}, []int{2}, []int{3, 1})
	keys := &attentionState{heads: 2, headDim: 3, most: 10}
	Begin(fixed)
	if err := fixed.Restore("b", []int{3, 1}, []float32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"k", "v"} {
		values := make([]float32, 2*4*3)
		for j := range values {
			values[j] = float32(100*i + j)
		}
		if err := keys.Restore(name, []int{2, 4, 3}, values); err != nil {
			t.Fatal(err)
		}
	}
	state := Together([]string{"x", "y"}, []State{fixed, keys})
	parts := StateParts(state)
	state.Tensors(func(name string, x *tensor.Tensor) {
		values := make([]float32, x.Len())
		x.CopyTo(values)
		if len(parts) == 0 || parts[0].Name != name {
			t.Fatalf("found the parts %v, want %s first", parts, name)
		}
		if shape, got := parts[0].Values(); !slices.Equal(shape, x.Shape()) || !slices.Equal(got, values) {
			t.Errorf("%s: found %v of shape %v, want %v of shape %v", name, got, shape, values, x.Shape())
		}
		parts = parts[1:]
	})
	if len(parts) > 0 {
		t.Errorf("found %d parts more", len(parts))
	}
}
