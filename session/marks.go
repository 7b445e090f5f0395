package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/generate/sample"
)

// Mark names the current end of the text, so that RewindTo can return to it. If the name exists, it moves here.
func (s *Session) Mark(name string) {
	s.names[name] = len(s.text.ids)
	s.mark()
}

// Unmark removes a name.
func (s *Session) Unmark(name string) { delete(s.names, name) }

// Marks returns the names set by Mark, and their positions.
func (s *Session) Marks() map[string]int {
	out := map[string]int{}
	for name, at := range s.names {
		out[name] = at
	}
	return out
}

// MarkAt returns the position of a name set by Mark.
func (s *Session) MarkAt(name string) (position int, ok bool) {
	position, ok = s.names[name]
	return position, ok
}

// Near returns the position from which Rewind to the given position would start to read again.
func (s *Session) Near(position int) int {
	text := s.text.until(min(max(0, position), len(s.text.ids)))
	return s.nearest(&text).Position
}

// Rewind truncates the text to position ids. Later results have the same bits as if the removed ids had never followed.
// If position is inside a segment that was read, the segment ends there from now on. Rewind reads again from the
// nearest mark before the position and returns how many ids it read. If it returns an error, the session is unchanged.
//
// Rewind to the current position does nothing, unless a call of Append was stopped there. Then it computes the missing
// logits, so that Generate can continue.
func (s *Session) Rewind(ctx context.Context, position int) (again int, err error) {
	switch {
	case s.writing:
		return 0, errWriting
	case position < 0 || position > len(s.text.ids):
		return 0, fmt.Errorf("session: found position %d, want one from 0 to %d", position, len(s.text.ids))
	case position == len(s.text.ids) && (s.read() < position || s.logits() != nil || position == 0):
		return 0, nil
	}
	text := s.text.until(position)
	from := s.nearest(&text)
	gen, start := s.from(from), from.Position
	logProbs := slices.Clone(s.logProbs[start:position])
	if again = position - start; again > 0 {
		r := &Request{
			Session: gen, Segments: text.segments(start, position), Progress: s.Progress,
			Client: s.o.Client, Priority: s.o.Priority,
		}
		if slices.ContainsFunc(logProbs, isNumber) { // the last piece is shorter now, which changes rounding errors
			r.Each = func(at int, logits []float32) {
				if at++; at < again && isNumber(logProbs[at]) {
					logProbs[at] = float32(sample.LogProb(logits, text.ids[start+at]))
				}
			}
		}
		if err := s.o.Runner.Run(ctx, r); err != nil {
			return 0, err
		}
		from = nil
	}
	s.gen, s.at, s.writer = gen, from, nil
	s.cut(position)
	s.logProbs = append(s.logProbs[:start:start], logProbs...)
	s.mark()
	return again, nil
}

func isNumber(x float32) bool { return x == x }

// RewindTo rewinds to a name set by Mark.
func (s *Session) RewindTo(ctx context.Context, name string) (again int, err error) {
	at, ok := s.names[name]
	if !ok {
		return 0, fmt.Errorf("session: found no mark %q", name)
	}
	return s.Rewind(ctx, at)
}

// nearest returns the latest state from which text, a prefix of the session's text, can be read on to its end.
func (s *Session) nearest(text *plan) *Snapshot {
	leads := func(at int, logits []float32) bool {
		return text.isCut(at) && (at < len(text.ids) || at == len(text.ids) && logits != nil)
	}
	if leads(s.read(), s.logits()) { // the model has not read the id that was sampled last
		return s.Snapshot()
	}
	for _, m := range slices.Backward(s.marks) {
		if leads(m.Position, m.Logits) {
			return m
		}
	}
	return &Snapshot{State: s.model.NewState()}
}

// mark stores the current state of the model as a mark and evicts the marks that exceed the budget.
func (s *Session) mark() {
	n := s.read()
	if s.o.Budget < 0 || n == 0 {
		return
	}
	i, there := slices.BinarySearchFunc(s.marks, n, func(m *Snapshot, n int) int { return cmp.Compare(m.Position, n) })
	switch {
	case there && (s.marks[i].Logits != nil || s.logits() == nil):
		s.at = s.marks[i] // it has the same state
	case there:
		s.marks[i] = s.Snapshot()
	default:
		s.marks = slices.Insert(s.marks, i, s.Snapshot())
		s.thin()
	}
}

// thin evicts the marks that save the least reading until the others fit the budget.
func (s *Session) thin() {
	total := 0
	for _, m := range s.marks {
		total += s.cost(m)
	}
	for total > s.o.Budget && len(s.marks) > 0 {
		total -= s.cost(s.drop())
	}
}

// drop evicts and returns the mark that saves the least reading.
func (s *Session) drop() *Snapshot {
	i := s.least()
	m := s.marks[i]
	s.marks = slices.Delete(s.marks, i, i+1)
	return m
}

// cost estimates the size of a mark without the keys and values that it shares with the current state and other marks.
func (s *Session) cost(m *Snapshot) int {
	growth, _ := s.model.Growth()
	return max(m.Size()-growth*m.Position, 4*len(m.Logits)) + growth*min(m.Position, sharedPage)
}

// sharedPage is about the number of positions whose keys and values a mark does not share.
const sharedPage = 64

// least returns the index of the mark that saves the least. A mark's value is the number of ids that it saves reading,
// divided by its distance from the end. Marks that serve a name have a higher value than any other.
func (s *Session) least() int {
	worst, least := 0, 0.0
	before := 0
	for i, m := range s.marks {
		saves := float64(m.Position-before) / float64(len(s.text.ids)-m.Position+s.text.chunk)
		for _, at := range s.names {
			if at >= m.Position && (i == len(s.marks)-1 || at < s.marks[i+1].Position) {
				saves += 1e9 // more than any mark without a name
				break
			}
		}
		if i == 0 || saves < least {
			worst, least = i, saves
		}
		before = m.Position
	}
	return worst
}
