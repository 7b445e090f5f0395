package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/generate/sample"
)

// Mark names the place after the text, to which Rewind can return. A name that exists already moves.
func (s *Session) Mark(name string) {
	s.names[name] = len(s.text.ids)
	s.mark()
}

// Unmark forgets a name.
func (s *Session) Unmark(name string) { delete(s.names, name) }

// Marks are the names of places and their positions.
func (s *Session) Marks() map[string]int {
	out := map[string]int{}
	for name, at := range s.names {
		out[name] = at
	}
	return out
}

// MarkAt is the position of the place of a name.
func (s *Session) MarkAt(name string) (position int, ok bool) {
	position, ok = s.names[name]
	return position, ok
}

// Near is the position from which a rewind to a position would have to read again.
func (s *Session) Near(position int) int {
	text := s.text.until(min(max(0, position), len(s.text.ids)))
	return s.nearest(&text).Position
}

// Rewind returns to a position: the text is cut to its first ids, and later results have the same bits as if nothing
// else had followed. A segment that was read ends there from now on. It reads again from the nearest mark before the
// position, and returns how many ids those are. After an error the session is unchanged.
//
// A rewind to the current position does nothing, unless a call of Append was stopped there: then it computes the
// missing logits, so that Generate can continue.
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
		if slices.ContainsFunc(logProbs, isNumber) { // the last piece is shorter now: they are rounded otherwise
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

// RewindTo is Rewind to the place of a name.
func (s *Session) RewindTo(ctx context.Context, name string) (again int, err error) {
	at, ok := s.names[name]
	if !ok {
		return 0, fmt.Errorf("session: found no mark %q", name)
	}
	return s.Rewind(ctx, at)
}

// nearest is the latest mark from which a text that starts as the session's can be read on.
func (s *Session) nearest(text *plan) *Snapshot {
	leads := func(at int, logits []float32) bool {
		return text.isCut(at) && (at < len(text.ids) || at == len(text.ids) && logits != nil)
	}
	if leads(s.read(), s.logits()) { // before an id that was drawn last
		return s.Snapshot()
	}
	for _, m := range slices.Backward(s.marks) {
		if leads(m.Position, m.Logits) {
			return m
		}
	}
	return &Snapshot{State: s.model.NewState()}
}

// mark stores the current state of the model and evicts the marks over the budget.
func (s *Session) mark() {
	n := s.read()
	if s.o.Budget < 0 || n == 0 {
		return
	}
	i, there := slices.BinarySearchFunc(s.marks, n, func(m *Snapshot, n int) int { return cmp.Compare(m.Position, n) })
	switch {
	case there && (s.marks[i].Logits != nil || s.logits() == nil):
		s.at = s.marks[i] // it is the same
	case there:
		s.marks[i] = s.Snapshot()
	default:
		s.marks = slices.Insert(s.marks, i, s.Snapshot())
		s.thin()
	}
}

// thin evicts the marks that save the least until the others fit the budget.
func (s *Session) thin() {
	total := 0
	for _, m := range s.marks {
		total += s.cost(m)
	}
	for total > s.o.Budget && len(s.marks) > 0 {
		total -= s.cost(s.drop())
	}
}

// drop evicts the mark that saves the least.
func (s *Session) drop() *Snapshot {
	i := s.least()
	m := s.marks[i]
	s.marks = slices.Delete(s.marks, i, i+1)
	return m
}

// cost estimates the size of a mark: keys and values of positions are shared with the text and with other marks.
func (s *Session) cost(m *Snapshot) int {
	growth, _ := s.model.Growth()
	return max(m.Size()-growth*m.Position, 4*len(m.Logits)) + growth*min(m.Position, sharedPage)
}

// sharedPage is about the number of positions that a mark does not share.
const sharedPage = 64

// least is the index of the mark that saves the least: how many ids it saves reading, in relation to how far back it
// is. Places with a name count more than all others.
func (s *Session) least() int {
	worst, least := 0, 0.0
	before := 0
	for i, m := range s.marks {
		saves := float64(m.Position-before) / float64(len(s.text.ids)-m.Position+s.text.chunk)
		for _, at := range s.names {
			if at >= m.Position && (i == len(s.marks)-1 || at < s.marks[i+1].Position) {
				saves += 1e9 // more than the other has for any text
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
