package engine

import (
	"math"
	"slices"
	"testing"
)

// TestHeaviest checks that the first largest weight is picked, and the middle one if all are equal.
func TestHeaviest(t *testing.T) {
	for _, c := range []struct {
		p    []float64
		want int
	}{
		{[]float64{0.1, 0.2, 0.7}, 2},
		{[]float64{0.1, 0.4, 0.4, 0.1}, 1},
		{[]float64{0.5, 0.5, 0}, 0},
		{[]float64{0.2, 0.2, 0.2, 0.2}, 2},
		{[]float64{0, 0, 0}, 1},
		{[]float64{1}, 0},
		{[]float64{math.NaN(), math.NaN(), math.NaN()}, 0},
	} {
		if got := Heaviest(c.p); got != c.want {
			t.Errorf("%v: picked %d, want %d", c.p, got, c.want)
		}
	}
}

// TestReads checks that the values of the largest weights are read, of equal ones the first, and also those of NaN.
func TestReads(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		values  int
		weights []float32
		want    []int
	}{
		{0, []float32{0.1, 0.2}, []int{0, 1}},
		{5, []float32{0.1, 0.2}, []int{0, 1}},
		{1, []float32{0.1, 0.6, 0.3}, []int{1}},
		{2, []float32{0.3, 0.1, 0.6}, []int{0, 2}},
		{2, []float32{0.2, 0.4, 0.2, 0.2}, []int{0, 1}},
		{3, []float32{0.2, 0.2, 0.4, 0.2}, []int{0, 1, 2}},
		{2, []float32{0, 0, 0, 0}, []int{0, 1}},
		{1, []float32{nan, nan}, []int{0, 1}},
	} {
		var got []int
		for i, read := range (&SpAttenOptions{Values: c.values}).Reads(c.weights) {
			if read {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d of %v: read %v, want %v", c.values, c.weights, got, c.want)
		}
	}
}
