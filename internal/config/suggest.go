package config

import (
	"cmp"
	"slices"
	"strings"
)

// didYouMean returns "; did you mean X?" for the known name nearest to the given one, or "" if none is near. A name
// without its group, for example d_model for model.d_model, is near, and so is a name with a typo in its last part.
// prefix, for example "--", is written before both names.
func didYouMean(prefix, name string, known []string) string {
	best, bestDistance := "", 2+len(name)/5 // a typo or two, a little more in a long name
	for _, k := range known {
		if d := distance(name, k); d < bestDistance && d < len(k) {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

// distance returns the distance of a name from a known one.
func distance(name, known string) int {
	d := editDistance(name, known)
	if strings.HasSuffix(known, "."+name) || strings.HasSuffix(known, "_"+name) {
		d = 1
	}
	if _, last, dotted := cutLast(known); dotted {
		if near := editDistance(name, last); near < len(last) {
			d = min(d, near)
		}
	}
	return d
}

// Nearest lists the known names nearest to the given one, n at most, the nearest first.
func Nearest(name string, known []string, n int) []string {
	far := make(map[string]int, len(known))
	for _, k := range known {
		far[k] = distance(name, k)
	}
	list := slices.Clone(known)
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(far[a], far[b]) })
	return list[:min(n, len(list))]
}

// editDistance returns the smallest number of inserted, deleted and replaced bytes and swapped neighbors that turns a
// into b (optimal string alignment).
func editDistance(a, b string) int {
	// Rows i-2, i-1 and i of the table D[i][j] = distance of a[:i] and b[:j].
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitute := above[j-1]
			if a[i-1] != b[j-1] {
				substitute++
			}
			row[j] = min(substitute, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
