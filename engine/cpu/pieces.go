package cpu

import (
	"sort"

	"github.com/hippo-ssm/hippo/engine"
)

// pieces are rows cut into pieces of up to size positions, each row from its own first position on. They are numbered row
// by row.
type pieces struct {
	rows  *engine.Rows
	size  int
	first []int // pieces before each row, and those of all rows
}

// cut cuts rows, but for those that steps names in order, which get no pieces. p is what the operation had in an earlier
// step.
func (p pieces) cut(r *engine.Rows, size int, steps []int) pieces {
	p.rows, p.size, p.first = r, size, p.first[:0]
	n := 0
	for i := range r.Count() {
		p.first = append(p.first, n)
		if len(steps) > 0 && steps[0] == i {
			steps = steps[1:]
		} else {
			n += (r.Len(i) + size - 1) / size
		}
	}
	p.first = append(p.first, n)
	return p
}

// count is the number of all pieces.
func (p *pieces) count() int { return p.first[len(p.first)-1] }

// of is the number of pieces of row i.
func (p *pieces) of(i int) int { return p.first[i+1] - p.first[i] }

// at is piece number k: the positions [lo, hi) of row i.
func (p *pieces) at(k int) (i, lo, hi int) {
	i = sort.Search(p.rows.Count(), func(i int) bool { return p.first[i+1] > k })
	lo = (k - p.first[i]) * p.size
	return i, lo, min(p.rows.Len(i), lo+p.size)
}
