package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/session"
)

// Found is what a store has of a text.
type Found struct {
	// Snapshot is the best mark to continue from, nil for the beginning. Others use it, too: clone its state.
	Snapshot *session.Snapshot
	// Cached is the position of Snapshot: how many ids need not be read.
	Cached int
	// LogProbs are the log-probabilities of the first ids, NaN where they are unknown. They may go further than Cached.
	LogProbs []float32
	// Miss says why not more was found.
	Miss Miss
	// Shared is the last end of a piece up to which the text is the same as one that the store knows. If it is after
	// Cached, there is no mark any more, or never was.
	Shared int
}

// Reason is why a store has no more of a text.
type Reason int

// The reasons.
const (
	Whole   Reason = iota // it has all
	Nothing               // no text that it knows starts like this one
	Start                 // all texts that it knows part in the first piece: another system prompt, for example
	Edited                // the text that has the most in common continues with another id
	Longer                // the text that has the most in common ends; this one continues
	Inside                // this text ends inside a piece of another
	Cut                   // the text that has the most in common was read in other pieces: drawn, for example
	Evicted               // there was no more room for the mark
	Between               // the text is known, but had no mark there

	reasons = iota // how many there are
)

// String is the reason in a word.
func (r Reason) String() string {
	return [reasons]string{
		"whole", "nothing", "start", "edited", "longer", "inside", "cut", "evicted", "between",
	}[r]
}

// Miss explains why a store has no more of a text.
type Miss struct {
	Reason Reason
	At     int // the position: how many ids are the same; of Evicted, where the mark was
}

// String explains the miss.
func (m Miss) String() string {
	switch m.Reason {
	case Whole:
		return "nothing missed"
	case Nothing:
		return "nothing of it is stored"
	case Start:
		return fmt.Sprintf("another text from token %d on: the beginning differs", m.At)
	case Edited:
		return fmt.Sprintf("edited at token %d", m.At)
	case Longer:
		return fmt.Sprintf("new from token %d on", m.At)
	case Inside:
		return fmt.Sprintf("ends at token %d, between two marks", m.At)
	case Cut:
		return fmt.Sprintf("stored as read in other pieces at token %d", m.At)
	case Evicted:
		return fmt.Sprintf("evicted at token %d", m.At)
	default:
		return fmt.Sprintf("no mark was left at token %d", m.At)
	}
}

// Find returns what is there of a text: in memory, or in the bucket, from where it comes into memory. A mark at the end
// of the text has logits. Errors of the bucket are reported to Options.Report, and the best mark in memory is returned.
func (s *Store) Find(ctx context.Context, plan []session.Segment) *Found {
	r := read(plan, s.o.Identity.Chunk)
	return s.find(ctx, r, r.keys(s.origin), r.len())
}

// find is Find of a mark at or before a position.
func (s *Store) find(ctx context.Context, r *reading, keys []key, most int) *Found {
	f, stored := s.look(r, keys, most)
	if s.o.Bucket != nil && len(stored) == 0 && s.worthAList(r, f.Cached, most) {
		if err := s.refresh(ctx, max(s.o.Refresh, 0)); err != nil {
			s.tell(s.named(err))
		}
		s.mu.Lock()
		s.makeRoom(ctx, noMore, false) // for what others have written
		s.mu.Unlock()
		f, stored = s.look(r, keys, most)
	}
	loaded := false
	for _, o := range stored {
		m, logp := s.load(ctx, o)
		if m == nil || m.Position == r.len() && m.Logits == nil {
			continue
		}
		loaded = true
		known := f.LogProbs
		f.Snapshot, f.Cached, f.LogProbs = m, m.Position, logp
		if len(known) > len(logp) {
			f.LogProbs = append(f.LogProbs, known[len(logp):]...)
		}
		for i, p := range known {
			if !isUnknown(p) {
				f.LogProbs[i] = p
			}
		}
		s.put(ctx, r.until(m.Position), keys, logp, true, m)
		break
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Finds++
	if loaded {
		s.stats.Loads++
	}
	if f.Cached > 0 {
		s.stats.Hits++
	}
	switch {
	case f.Cached == r.len():
		f.Miss = Miss{Whole, f.Cached}
	case f.Cached > f.Miss.At: // no one here knows what was read after a mark of others
		f.Miss = Miss{Longer, f.Cached}
	}
	s.stats.Cached += int64(f.Cached)
	s.stats.Missed[f.Miss.Reason]++
	return f
}

// worthAList reports whether the bucket could have a better mark than one at a position.
func (s *Store) worthAList(r *reading, cached, most int) bool {
	return slices.ContainsFunc(r.cuts, func(c cut) bool { return c.rung && c.at > cached && c.at <= most })
}

// look looks in memory, and for objects in the index that are better, the best first.
func (s *Store) look(r *reading, keys []key, most int) (f *Found, stored []*object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.tree.root.follow(r)
	f = &Found{Shared: w.shared, LogProbs: w.logProbs()}
	for _, n := range slices.Backward(w.nodes) {
		if n.bare != nil {
			s.tree.bare.MoveToBack(n.bare)
		}
		if m := n.mark; m != nil && n.end() <= min(w.shared, most) && (n.end() < r.len() || m.snapshot.Logits != nil) {
			s.marks.use(m)
			f.Snapshot, f.Cached = m.snapshot, n.end()
			break
		}
	}
	f.Miss = w.miss(r, f.Cached)
	for i := len(keys) - 1; len(s.index.objects) > 0 && i >= 0 && r.cuts[i].at > f.Cached; i-- {
		if c := r.cuts[i]; c.at <= most {
			if o := s.index.objects[keys[i]]; o != nil {
				o.clock = s.index.clock
				stored = append(stored, o)
			}
		}
	}
	return f, stored
}

// miss says why a text has no mark after a position.
func (w *way) miss(r *reading, cached int) Miss {
	for _, n := range slices.Backward(w.nodes) {
		if n.evicted && n.end() <= w.shared && n.end() > cached {
			return Miss{Evicted, n.end()}
		}
	}
	if w.shared == r.len() {
		return Miss{Between, w.shared}
	}
	next, rest := w.next(r), r.syms[w.shared:]
	if next == nil {
		if w.shared == 0 {
			return Miss{Nothing, 0}
		}
		return Miss{Longer, w.shared}
	}
	k := same(next, rest) // less than both have, as otherwise a piece more were the same
	at := w.shared + k
	switch {
	case next[k]>>1 == rest[k]>>1 && k == len(next)-1:
		return Miss{Longer, at + 1}
	case next[k]>>1 == rest[k]>>1 && k == len(rest)-1:
		return Miss{Inside, at + 1}
	case next[k]>>1 == rest[k]>>1:
		return Miss{Cut, at + 1}
	case w.shared == 0:
		return Miss{Start, at}
	}
	return Miss{Edited, at}
}
