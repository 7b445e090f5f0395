package cpu

import (
	"sort"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// work is a list of jobs, in the order of the rows that they belong to. A row may have any number of jobs, for example
// one for each head or for each tile.
type work struct{ ends []int } // for each row, the number of jobs up to its last

// clear removes all jobs.
func (p *work) clear() { p.ends = p.ends[:0] }

// add adds the next row, with n jobs.
func (p *work) add(n int) { p.ends = append(p.ends, p.total()+n) }

// total returns the number of jobs.
func (p *work) total() int {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[len(p.ends)-1]
}

// each calls f on all cores for every job i of every row, grain jobs to a task.
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
