package engine

import (
	"cmp"
	"slices"
)

// SpAttenRow describes what one layer of SpAtten prunes in a row. It stays pruned in the next layer.
type SpAttenRow struct {
	Block int          // positions of a block
	Left  int          // number of tokens in the layer before the row
	Cuts  []SpAttenCut // one for each block that the row completes
}

// SpAttenCut describes what a layer keeps after a block. Importance is summed over the layer and all earlier ones.
type SpAttenCut struct {
	To         []int32   // for each token of the layer its index after the cut, -1 if pruned
	Importance []float32 // of the remaining tokens
	Heads      []float32 // of all heads, -1 for pruned heads
	Done       bool      // no more heads will be pruned
}

// Part returns the part of p for n positions of the row, starting at position at. The row starts at position start of
// its sequence.
func (p *SpAttenRow) Part(start, at, n int) SpAttenRow {
	from := start + at
	first := from/p.Block - start/p.Block
	part := SpAttenRow{p.Block, p.Left + at, p.Cuts[first:][:(from+n)/p.Block-from/p.Block]}
	if first > 0 {
		part.Left = len(p.Cuts[first-1].Importance) + from%p.Block
	}
	return part
}

// Leave prunes after a block: it marks pruned heads in heads, and returns which of the n = len(importance) tokens are
// left, in order. order has memory for n tokens.
//
// If there is an earlier layer, above is its cut. Tokens and heads that it has pruned are pruned too, and its
// importance is added to that of this layer. This layer prunes more heads only when the earlier layer is done, so that
// no layer ends without heads. places (n or more) holds 1 + the index of each token in the earlier layer; Leave updates
// it to the indices after the cut.
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

// At returns the index of a token after the cut. It returns -1 for a pruned token and for an invalid index, because a
// damaged state may contain any index.
func (c *SpAttenCut) At(place int) int {
	if place < 0 || place >= len(c.To) {
		return -1
	}
	return int(c.To[place])
}

// leastHead returns the least important remaining head, and reports whether more heads remain than KeepHeads.
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

// LeftOf returns how many tokens are left after n positions in a layer with these places. places is nil for a layer
// that does not depend on an earlier one.
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
