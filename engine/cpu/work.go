package cpu

import (
	"sort"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// work is pieces of work, of which each row has some: its heads, say, or the tiles of these.
type work struct{ ends []int } // pieces of all rows up to and with this one

// clear takes all pieces away.
func (p *work) clear() { p.ends = p.ends[:0] }

// add adds the next row, with n pieces.
func (p *work) add(n int) { p.ends = append(p.ends, p.total()+n) }

// total is the number of all pieces.
func (p *work) total() int {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[len(p.ends)-1]
}

// each calls f on all cores for every piece i of every row.
func (p *work) each(grain int, f func(row, i int)) {
	parallel.For(p.total(), grain, func(lo, hi int) {
		row := sort.SearchInts(p.ends, lo+1)
		for at := lo; at < hi; at++ {
			for p.ends[row] <= at {
				row++
			}
			first := 0
			if row > 0 {
				first = p.ends[row-1]
			}
			f(row, at-first)
		}
	})
}
