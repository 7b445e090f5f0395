package quantize

import "slices"

// option is a way to store a matrix.
type option struct {
	kind int // index in kinds
	size float64
	cost float64
}

// choose picks an option for each matrix and returns the chosen kinds. The options of a matrix are sorted by size, the
// smallest first. choose starts with the smallest option of each matrix. Until the cost is low enough, it takes the
// step to a larger option that saves the most cost for its size, among those for which there is room. Steps follow the
// lower convex hull, on which no later step is better than an earlier one.
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

// hull returns the lower convex hull of options by size. It omits options that cost no less than a smaller one, and
// options above the line between their neighbors.
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
