package cpu

import (
	"sort"

	"github.com/hippo-ssm/hippo/engine"
)

// cuts divides rows into pieces of up to size positions, each row from its first position on. Pieces are numbered row
// by row.
type cuts struct {
	rows  *engine.Rows
	size  int
	first []int // number of pieces before each row, and in total
}

// cut divides the rows of r except those that steps lists, in order. It reuses the memory of c.
func (c cuts) cut(r *engine.Rows, size int, steps []int) cuts {
	c.rows, c.size, c.first = r, size, c.first[:0]
	n := 0
	for i := range r.Count() {
		c.first = append(c.first, n)
		if len(steps) > 0 && steps[0] == i {
			steps = steps[1:]
		} else {
			n += (r.Len(i) + size - 1) / size
		}
	}
	c.first = append(c.first, n)
	return c
}

// count returns the number of all pieces.
func (c *cuts) count() int { return c.first[len(c.first)-1] }

// of returns the number of pieces of row i.
func (c *cuts) of(i int) int { return c.first[i+1] - c.first[i] }

// at returns piece k: the positions [lo, hi) of row i.
func (c *cuts) at(k int) (i, lo, hi int) {
	i = sort.Search(c.rows.Count(), func(i int) bool { return c.first[i+1] > k })
	lo = (k - c.first[i]) * c.size
	return i, lo, min(c.rows.Len(i), lo+c.size)
}
