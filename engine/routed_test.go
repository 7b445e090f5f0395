package engine

import (
	"math"
	"slices"
	"testing"
)

// TestChoose checks that the largest keys are chosen, of equal ones the first, and with groups only from the best
// groups.
func TestChoose(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		by   Routing
		keys []float64
		want []int
	}{
		"best":           {Routing{TopK: 2}, []float64{0.1, 0.9, -3, 0.5}, []int{1, 3}},
		"first of equal": {Routing{TopK: 2}, []float64{1, 2, 1, 1}, []int{0, 1}},
		"all":            {Routing{TopK: 3}, []float64{-1, -2, -3}, []int{0, 1, 2}},
		// sums of the two best: 9, 10, 4
		"groups": {Routing{TopK: 2, Groups: 3, TopGroups: 1}, []float64{9, 0, 0, 5, 5, 0, 2, 2, 2}, []int{3,
			4}},
		"two groups": {Routing{TopK: 2, Groups: 3, TopGroups: 2}, []float64{9, 0, 0, 5, 4, 1, 2, 2, 2}, []int{0,
			3}},
		"equal groups":      {Routing{TopK: 1, Groups: 2, TopGroups: 1}, []float64{1, 2, 2, 1}, []int{1}},
		"groups of one":     {Routing{TopK: 1, Groups: 3, TopGroups: 1}, []float64{1, 3, 2}, []int{1}},
		"negative in group": {Routing{TopK: 2, Groups: 2, TopGroups: 1}, []float64{-1, -2, -3, -4}, []int{0, 1}},
		"infinity":          {Routing{TopK: 2}, []float64{math.Inf(-1), math.Inf(-1), 0}, []int{0, 2}},
		"NaN":               {Routing{TopK: 2}, []float64{nan, nan, nan}, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			chosen := slices.Repeat([]bool{true}, len(c.keys)) // earlier contents must not matter
			Choose(c.by, c.keys, chosen)
			var got []int
			for e, ok := range chosen {
				if ok {
					got = append(got, e)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("chose %v, want %v", got, c.want)
			}
		})
	}
}
