package golden

import (
	"math"
	"testing"
)

// tiny stands for the largest element when all wanted elements are zero.
const tiny = 1e-30

// Close fails the test unless max|got-want| <= tol · max|want|: differences are measured against the largest element of
// the tensor, as the golden files state their tolerances. Lengths must be equal. NaN is never close.
func Close[T float32 | float64](t testing.TB, what string, got []T, want []float64, tol float64) {
	t.Helper()
	largest := tiny
	for _, w := range want {
		largest = max(largest, math.Abs(w)) // NaN stays NaN, and nothing is within it
	}
	if i, diff := worst(t, what, got, want); !(diff <= tol*largest) {
		t.Errorf("%s: worst element %d: got %v, want %v; difference %.3g, allowed %.3g (%.3g of the largest, %.6g)",
			what, i, got[i], want[i], diff, tol*largest, tol, largest)
	}
}

// CloseAbs fails the test unless max|got-want| <= tol.
func CloseAbs[T float32 | float64](t testing.TB, what string, got []T, want []float64, tol float64) {
	t.Helper()
	if i, diff := worst(t, what, got, want); !(diff <= tol) {
		t.Errorf("%s: worst element %d: got %v, want %v; difference %.3g, allowed %.3g", what,
			i, got[i], want[i], diff, tol)
	}
}

// worst returns the index of the largest difference, or of the first NaN, and that difference. It fails the test at
// once if the lengths differ.
func worst[T float32 | float64](t testing.TB, what string, got []T, want []float64) (int, float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d elements, want %d", what, len(got), len(want))
	}
	index, largest := 0, 0.0
	for i := range got {
		diff := math.Abs(float64(got[i]) - want[i])
		if math.IsNaN(diff) {
			return i, diff
		}
		if diff > largest {
			index, largest = i, diff
		}
	}
	return index, largest
}
