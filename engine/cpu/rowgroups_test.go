package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
)

// TestByKey checks that each key is passed once with its rows in order, in the order of the keys' first rows. The work
// is linear in the number of rows: the key of each row is computed once. Later calls allocate no memory.
func TestByKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	eng := New(&engine.Step{})
	for _, count := range []int{0, 1, 2, 7, 64, 1000} {
		for _, kinds := range []int{1, 2, 5, 40, 5000} {
			r, keys := &engine.Rows{}, make([]int, count)
			for i := range keys {
				r.Add(1+rng.IntN(5), 0)
				keys[i] = rng.IntN(kinds)
			}
			asked, at := 0, 0
			var order []int
			want := map[int][]int{}
			for i, k := range keys {
				if k != 0 && want[k] == nil {
					order = append(order, k)
				}
				if k != 0 {
					want[k] = append(want[k], i)
				}
			}
			byKey(eng, r, func(i int) int { asked++; return keys[i] }, func(rows []int, k int) {
				if at >= len(order) || k != order[at] || !slices.Equal(rows, want[k]) {
					t.Fatalf("%d rows: call %d has key %d and rows %v, want %v", count, at, k, rows, want[k])
				}
				at++
			})
			if asked != count || at != len(order) {
				t.Errorf("%d rows of %d keys: %d keys asked for, %d groups", count, len(order), asked, at)
			}
			n := 0
			allocations := testing.AllocsPerRun(2, func() {
				eng.Reset()
				byKey(eng, r, func(i int) int { return keys[i] }, func(rows []int, _ int) { n += len(rows) })
			})
			if allocations > 0 {
				t.Errorf("%d rows of %d keys: %v allocations", count, len(order), allocations)
			}
		}
	}
}
