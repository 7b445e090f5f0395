package cpu

import "github.com/hippo-ssm/hippo/engine"

// span is a row of a tensor, or a piece of one: len positions from at on.
type span struct{ at, len int }

// spanOf is row i of r.
func spanOf(r *engine.Rows, i int) span { return span{r.From(i), r.Len(i)} }

// rowGroup is memory for a group of rows.
type rowGroup struct{ rows []int }

// groups calls f for the rows that have the same key, group by group in the order of their first rows. It leaves out rows
// with key 0.
func (eng *Engine) groups(r *engine.Rows, key func(i int) int, f func(rows []int)) {
	var g *rowGroup
	for i := range r.Count() {
		k := key(i)
		if k == 0 || earlier(i, k, key) {
			continue
		}
		if g == nil {
			g = take[rowGroup](eng)
		}
		g.rows = g.rows[:0]
		for j := i; j < r.Count(); j++ {
			if key(j) == k {
				g.rows = append(g.rows, j)
			}
		}
		f(g.rows)
	}
}

// earlier reports whether a row before row i has the key k.
func earlier(i, k int, key func(i int) int) bool {
	for j := range i {
		if key(j) == k {
			return true
		}
	}
	return false
}

// subset are some rows of a tensor, laid one behind the other.
type subset struct {
	*engine.Rows
	all   *engine.Rows // those of the tensor
	which []int        // what the rows are in all; empty where they are all of them
	own   engine.Rows
}

// choose makes s the rows i of all for which use(i) is true.
func (s *subset) choose(all *engine.Rows, use func(i int) bool) {
	s.all, s.which = all, s.which[:0]
	s.own.Clear()
	for i := range all.Count() {
		if use(i) {
			s.which = append(s.which, i)
			s.own.Add(all.Len(i), all.Start(i))
		}
	}
	if s.Rows = &s.own; len(s.which) == all.Count() {
		s.Rows, s.which = all, s.which[:0]
	}
}

// whole reports whether the rows are all of them.
func (s *subset) whole() bool { return s.Rows == s.all }

// each calls f on all cores for pieces of the rows of up to g positions each: n positions, from own on in the subset and
// from all on in the tensor.
func (s *subset) each(g int, f func(own, all, n int)) {
	if s.whole() {
		overPositions(1, s.Total(), g, func(_, lo, hi int) { f(lo, lo, hi-lo) })
		return
	}
	overRows(s.Rows, g, func(i, lo, hi int) { f(s.From(i)+lo, s.all.From(s.which[i])+lo, hi-lo) })
}
