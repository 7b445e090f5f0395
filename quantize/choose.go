package quantize

import "slices"

// option is a way to keep a matrix.
type option struct {
	kind int // in kinds
	size float64
	cost float64
}

// choose picks an option for each matrix, which have their options by size, the smallest first. It begins with the
// smallest of each and takes, as long as want asks for less cost and there is room, the step to a larger one that takes
// off the most cost for its size. Steps are those of the lower convex hull, on which no later step is better than an
// earlier one. It returns the chosen kinds.
func choose(matrices [][]option, room float64, enough func(cost float64) bool) []int {
	hulls, at := make([][]option, len(matrices)), make([]int, len(matrices))
	size, cost := 0.0, 0.0
	for i, all := range matrices {
		hulls[i] = hull(all)
		size += hulls[i][0].size
		cost += hulls[i][0].cost
	}
	for !enough(cost) {
		best, gain := -1, 0.0
		for i, h := range hulls {
			if at[i]+1 == len(h) {
				continue
			}
			now, next := h[at[i]], h[at[i]+1]
			more := next.size - now.size
			if g := (now.cost - next.cost) / more; g > gain && size+more <= room {
				best, gain = i, g
			}
		}
		if best < 0 {
			break
		}
		now, next := hulls[best][at[best]], hulls[best][at[best]+1]
		size, cost = size+next.size-now.size, cost+next.cost-now.cost
		at[best]++
	}
	out := make([]int, len(matrices))
	for i, h := range hulls {
		out[i] = h[at[i]].kind
	}
	return out
}

// hull is the lower convex hull of options by size: what costs no less than a smaller one is left out, and so is what
// is above the line between its neighbors.
func hull(all []option) (h []option) {
	for _, o := range all {
		if len(h) > 0 && o.cost >= h[len(h)-1].cost {
			continue
		}
		for len(h) >= 2 {
			a, b := h[len(h)-2], h[len(h)-1]
			if (a.cost-b.cost)*(o.size-b.size) > (b.cost-o.cost)*(b.size-a.size) {
				break
			}
			h = slices.Delete(h, len(h)-1, len(h))
		}
		h = append(h, o)
	}
	return h
}
