package engine

import (
	"cmp"
	"slices"
)

// SpAttenRow is what one layer of SpAtten prunes of a row, for the next one, in which that stays pruned.
type SpAttenRow struct {
	Block int          // positions of a block
	Left  int          // tokens that the layer had before the row
	Cuts  []SpAttenCut // one for each block that the row completes
}

// SpAttenCut is what a layer leaves after a block. Importance is summed over the layer and all earlier ones.
type SpAttenCut struct {
	To         []int32   // for each token of the layer its place after the cut, -1 if it is pruned
	Importance []float32 // of the tokens that are left
	Heads      []float32 // of all heads, -1 for those pruned
	Done       bool      // no head will be pruned any more
}

// Part is what concerns n positions of the row, from at on. The row starts at position start of its sequence.
func (p *SpAttenRow) Part(start, at, n int) SpAttenRow {
	from := start + at
	first := from/p.Block - start/p.Block
	part := SpAttenRow{p.Block, p.Left + at, p.Cuts[first:][:(from+n)/p.Block-from/p.Block]}
	if first > 0 {
		part.Left = len(p.Cuts[first-1].Importance) + from%p.Block
	}
	return part
}

// Leave prunes after a block: it marks heads, and returns which of n = len(importance) tokens are left, in order.
// order has memory for n of them.
//
// Below an earlier layer, whose cut is above, tokens and heads that it has pruned are pruned too, and importance is
// added to its own. So that no layer ends without heads, this one prunes more of them when the earlier one is done.
// places (n or more), 1 + the place of each token in the earlier layer, are then those after the cut.
func (o *SpAttenOptions) Leave(order []int, importance, heads, places []float32, above *SpAttenCut) (left []int,
	cut SpAttenCut) {
	mass, sums := heads, importance
	if above != nil {
		mass, sums = slices.Clone(heads), slices.Clone(importance)
		for h, x := range above.Heads {
			if mass[h] += x; x < 0 || heads[h] < 0 {
				heads[h], mass[h] = -1, -1
			}
		}
	}
	if h, more := o.leastHead(mass); more && (above == nil || above.Done) {
		heads[h], mass[h] = -1, -1
	}
	left = order[:0]
	for i := range importance {
		if above != nil {
			to := above.At(int(places[i]) - 1)
			if places[i] = float32(to + 1); to < 0 {
				continue
			}
			sums[i] += above.Importance[to]
		}
		left = append(left, i)
	}
	if len(left) > o.Keep {
		slices.SortStableFunc(left, func(i, j int) int { return cmp.Compare(sums[j], sums[i]) })
		left = left[:o.Keep]
		slices.Sort(left)
	}
	if places == nil {
		return left, cut
	}
	cut = SpAttenCut{To: make([]int32, len(importance)), Heads: slices.Clone(mass), Done: true}
	if _, more := o.leastHead(mass); more || above != nil && !above.Done {
		cut.Done = false
	}
	for i := range cut.To {
		cut.To[i] = -1
	}
	for to, from := range left {
		cut.To[from], cut.Importance = int32(to), append(cut.Importance, sums[from])
		if places[to] = places[from]; above == nil {
			places[to] = float32(to + 1)
		}
	}
	clear(places[len(left):])
	return left, cut
}

// At is the place after the cut of a token, -1 for one that is pruned, and for a place that there is not: a damaged
// state may have any.
func (c *SpAttenCut) At(place int) int {
	if place < 0 || place >= len(c.To) {
		return -1
	}
	return int(c.To[place])
}

// leastHead is the least important head that is left, and reports whether more are left than are to be.
func (o *SpAttenOptions) leastHead(mass []float32) (least int, more bool) {
	least, left := -1, 0
	for h, x := range mass {
		if x < 0 {
			continue
		}
		left++
		if least < 0 || x < mass[least] {
			least = h
		}
	}
	return least, left > o.KeepHeads
}

// LeftOf is how many tokens are left after n positions in a layer with these places, nil for one that is on its own.
func (o *SpAttenOptions) LeftOf(places []float32, n int) int {
	if most := o.Left(n); places != nil {
		left := slices.IndexFunc(places[:most], func(x float32) bool { return !(x >= 1) })
		if left >= 0 {
			return left
		}
		return most
	}
	return o.Left(n)
}
