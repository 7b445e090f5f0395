package engine

import (
	"fmt"
	"slices"
	"testing"
)

// TestBlocksSeen checks that a block sees the expected blocks, each once. Random blocks must lie outside the others,
// differ between blocks, and not change as the sequence grows.
func TestBlocksSeen(t *testing.T) {
	const count = 20
	for _, b := range []*Blocks{
		{Size: 1, Window: 1, Global: 2, Random: 3, Seed: 5},
		{Size: 1, Window: 2, Global: 1, Random: 4, Ahead: true},
		{Size: 1, Random: 1},
	} {
		draws := map[string]bool{}
		for block := range count {
			total := count
			if !b.Ahead {
				total = block + 1
			}
			seen := b.Seen(nil, 0, block, total)
			draws[fmt.Sprint(b.draw(nil, 0, block, total))] = true
			if !slices.IsSorted(seen) || len(slices.Compact(slices.Clone(seen))) != len(seen) {
				t.Errorf("block %d sees %v", block, seen)
			}
			fixed := 0
			for k := range total {
				near := k >= block-b.Window && k <= block+b.Window
				global := k < b.Global || b.Ahead &&
					(k >= count-b.Global || block < b.Global || block >= count-b.Global)
				if near || global {
					fixed++
					if !slices.Contains(seen, k) {
						t.Errorf("block %d does not see %d: %v", block, k, seen)
					}
				}
			}
			if want := fixed + min(b.Random, total-fixed); len(seen) != want {
				t.Errorf("block %d of %d sees %v, want %d blocks", block, total, seen, want)
			}
		}
		if len(draws) < count/2 {
			t.Errorf("%+v: only %d different draws", *b, len(draws))
		}
	}
}
