package session

import (
	"cmp"
	"fmt"
	"slices"
)

// plan is a text as a model has read it: its ids, and where they were cut. It determines the bits of the state.
type plan struct {
	chunk int
	ids   []int32
	spans []span
}

// span is a range of ids that were read together or sampled together. It starts at the end of the span before. A span
// that was read is cut at its end and at the multiples of the chunk inside it. A span that was sampled is cut after
// every id.
type span struct {
	End   int  `json:"end"`
	Drawn bool `json:"drawn,omitempty"`
}

// add appends ids. It extends the last span if that gives the same cuts as a new one.
func (p *plan) add(drawn bool, ids ...int32) {
	if len(ids) == 0 {
		return
	}
	before := len(p.ids)
	p.ids = append(p.ids, ids...)
	if n := len(p.spans); n > 0 && p.spans[n-1].Drawn == drawn && (drawn || before%p.chunk == 0) {
		p.spans[n-1].End = len(p.ids)
		return
	}
	p.spans = append(p.spans, span{len(p.ids), drawn})
}

// fork returns an independent copy.
func (p *plan) fork() plan {
	return plan{p.chunk, slices.Clip(p.ids), slices.Clone(p.spans)}
}

// until returns a copy of the plan for the first n ids. A span that continues beyond them ends there.
func (p *plan) until(n int) plan {
	out := plan{chunk: p.chunk, ids: slices.Clip(p.ids[:n])}
	at := 0
	for _, s := range p.spans {
		if at < n {
			out.spans = append(out.spans, span{min(s.End, n), s.Drawn})
		}
		at = s.End
	}
	return out
}

// spanOf returns the index of the span that contains id i.
func (p *plan) spanOf(i int) int {
	at, _ := slices.BinarySearchFunc(p.spans, i+1, func(s span, end int) int { return cmp.Compare(s.End, end) })
	return at
}

// isCut reports whether the text is cut after its first n ids.
func (p *plan) isCut(n int) bool {
	if n <= 0 || n >= len(p.ids) {
		return n == 0 || n == len(p.ids)
	}
	s := p.spans[p.spanOf(n-1)]
	return s.Drawn || s.End == n || n%p.chunk == 0
}

// segments returns the ids between two cuts, one segment for each span.
func (p *plan) segments(from, to int) (out []Segment) {
	for i := p.spanOf(from); from < to; i++ {
		end := min(to, p.spans[i].End)
		out = append(out, Segment{IDs: p.ids[from:end], Drawn: p.spans[i].Drawn})
		from = end
	}
	return out
}

// check returns an error unless the spans cover the ids.
func (p *plan) check() error {
	at := 0
	for _, s := range p.spans {
		if s.End <= at {
			return fmt.Errorf("session: found a part of a text that ends at %d after one that ends at %d", s.End, at)
		}
		at = s.End
	}
	if at != len(p.ids) {
		return fmt.Errorf("session: found parts of %d ids in a text of %d", at, len(p.ids))
	}
	return nil
}
