package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// span is a row of a tensor, or a part of one: len positions from at on.
type span struct{ at, len int }

// spanOf returns row i of r.
func spanOf(r *engine.Rows, i int) span { return span{r.From(i), r.Len(i)} }

// rowList is memory for a list of rows.
type rowList struct{ rows []int }

// rowGroups is memory to group rows by a key.
type rowGroups[K comparable] struct {
	number map[K]int // number of the group of each key
	keys   []K       // key of each group
	of     []int     // group of each row, none for a row without one
	ends   []int     // end of each group in rows
	rows   []int     // the rows of each group in order
}

// byKey calls f for each key with the rows that have it, in the order of their first rows. It omits rows whose key is
// zero.
func byKey[K comparable](eng *Engine, r *engine.Rows, key func(i int) K, f func(rows []int, k K)) {
	const none = -1
	var zero K
	g := take[rowGroups[K]](eng)
	g.keys, g.of, g.ends = g.keys[:0], g.of[:0], g.ends[:0]
	clear(g.number)
	for i := range r.Count() {
		group := none
		if k := key(i); k != zero {
			group = g.group(k)
			g.ends[group]++
		}
		g.of = append(g.of, group)
	}
	n := 0
	for i, size := range g.ends { // until the next loop, the start of the group
		g.ends[i], n = n, n+size
	}
	g.rows = resize(g.rows, n)
	for i, group := range g.of {
		if group != none {
			g.rows[g.ends[group]] = i
			g.ends[group]++
		}
	}
	from := 0
	for i, k := range g.keys {
		f(g.rows[from:g.ends[i]], k)
		from = g.ends[i]
	}
}

// group returns the number of the group of rows with key k.
func (g *rowGroups[K]) group(k K) int {
	const few = 4 // number of keys that a search finds faster than the map
	for i := range min(few, len(g.keys)) {
		if g.keys[i] == k {
			return i
		}
	}
	i, ok := g.number[k]
	if !ok {
		if i = len(g.keys); g.number == nil {
			g.number = map[K]int{}
		}
		g.number[k] = i
		g.keys, g.ends = append(g.keys, k), append(g.ends, 0)
	}
	return i
}

// subset is a subset of the rows of a tensor, as if they were contiguous.
type subset struct {
	*engine.Rows
	all   *engine.Rows // the rows of the tensor
	which []int        // their numbers in all; empty if the subset is all rows
	own   engine.Rows
}

// choose sets s to the rows i of all for which use(i) is true.
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

// whole reports whether the subset is all rows.
func (s *subset) whole() bool { return s.Rows == s.all }

// in returns the number in all of row i.
func (s *subset) in(i int) int {
	if s.whole() {
		return i
	}
	return s.which[i]
}

// rowsOf holds the elements of all rows, or if own is true those of the subset's rows only.
type rowsOf struct {
	x   []float32
	own bool
}

// gate sets y to x⊙g on all cores, or to x if g is nil. If add is true, it adds to y. If y is nil, it does nothing.
func (s *subset) gate(y, x, g rowsOf, d int, add bool) {
	if y.x == nil {
		return
	}
	if s.whole() {
		parallel.For(s.Total()*d, grain, func(lo, hi int) { gate(y.x[lo:hi], x.x[lo:hi], g.x, lo, add) })
		return
	}
	overRows(s.Rows, rowGrain(d), func(i, lo, hi int) {
		own, all := (s.From(i)+lo)*d, (s.all.From(s.in(i))+lo)*d
		at := func(r rowsOf) int {
			if r.own {
				return own
			}
			return all
		}
		n := (hi - lo) * d
		gate(y.x[at(y):][:n], x.x[at(x):][:n], g.x, at(g), add)
	})
}

// gate is subset.gate for a run of elements that starts at element at of g.
func gate(y, x, g []float32, at int, add bool) {
	switch {
	case g == nil && add:
		kernel.Add(y, x)
	case g == nil:
		copy(y, x)
	case add:
		kernel.MulAdd(y, x, g[at:])
	default:
		kernel.MulInto(y, x, g[at:])
	}
}
