package autograd_test

import (
	"fmt"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
)

// TestDiagSSMAroundLongest checks that sequences up to the longest that is convolved at once, and longer ones, match
// the recurrence.
func TestDiagSSMAroundLongest(t *testing.T) {
	const longest = engine.LongestAtOnce
	for _, l := range []int{longest, longest + 1, longest + longest/2 + 1} {
		t.Run(fmt.Sprint(l), func(t *testing.T) {
			s := diagVariant{lens: []int{l}, heads: 2, dim: 1, n: 1, gated: true}.sequences()
			r := s.row()
			r.tol = 1e-5
			r.of = func(input, _ int, x float64) float64 {
				if input == 3 {
					return x/2 - 8 // steps of 3e-4: the state lasts for some thousand positions
				}
				return x
			}
			r.agree(t, r.in, r.random(r.in, 6), false)
		})
	}
}
