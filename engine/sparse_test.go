package engine

import (
	"math"
	"testing"
)

// TestHeaviest: the first of the largest is picked, and the middle where all are the same.
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
