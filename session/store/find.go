package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/session"
)

// Found describes the part of a text that a store has.
type Found struct {
	// Snapshot is the best mark to continue from; nil means the start of the text. It is shared, so its state must be
	// cloned before use.
	Snapshot *session.Snapshot
	// Cached is the position of Snapshot: the number of ids that need not be read.
	Cached int
	// Kept is the number of ids that another call would find: Cached, or more after Open has read further.
	Kept int
	// TooLarge reports that a mark was not stored because it is larger than all memory: see ErrTooLarge.
	TooLarge bool
	// LogProbs holds the log-probabilities of the first ids, NaN if unknown. It may extend beyond Cached.
	LogProbs []float32
	// Miss explains why the store does not have more of the text.
	Miss Miss
	// Shared is the end of the last piece that the text has in common with a known text. If it is greater than Cached,
	// the mark there was evicted or never existed.
	Shared int
}

// Reason is the reason why a store does not have more of a text.
type Reason int

// The reasons.
const (
	Whole   Reason = iota // the whole text was found
	Nothing               // no known text starts like this one
	Start                 // all known texts diverge in the first piece, for example with another system prompt
	Edited                // the closest known text continues with another id
	Longer                // the closest known text ends, and this one continues
	Inside                // this text ends inside a piece of a known text
	Cut                   // the closest known text was read in other pieces, for example because it was sampled
	Evicted               // the mark was evicted
	Between               // the text is known, but has no mark there

	reasons = iota // number of reasons
)

// String returns the reason in one word.
func (r Reason) String() string {
	return [reasons]string{
		"whole", "nothing", "start", "edited", "longer", "inside", "cut", "evicted", "between",
	}[r]
}

// Miss explains why a store has no more of a text.
type Miss struct {
	Reason Reason
	At     int // the number of ids in common; for Evicted, the position of the mark
}

// String explains the miss in a phrase.
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

// Find looks up a text. It loads a mark from the bucket into memory if it is better than those in memory. A mark at the
// end of the text has logits. Find passes errors of the bucket to Options.Report and then returns the best mark in
// memory.
func (s *Store) Find(ctx context.Context, plan []session.Segment) *Found {
	r := read(plan, s.o.Identity.Chunk)
	return s.find(ctx, r, r.keys(s.origin), r.len())
}

// find is like Find, for a mark at or before position most.
func (s *Store) find(ctx context.Context, r *reading, keys []key, most int) *Found {
	f, stored := s.look(r, keys, most)
	if s.o.Bucket != nil && len(stored) == 0 && s.worthAList(r, f.Cached, most) {
		if err := s.refresh(ctx, max(s.o.Refresh, 0)); err != nil {
			s.tell(s.named(err))
		}
		s.mu.Lock()
		s.makeRoom(ctx, noMore, false) // the index has grown by the marks of other processes
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
		_ = s.put(ctx, r.until(m.Position), keys, logp, true, m)
		break
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Finds++
	if loaded {
		s.stats.Loads++
	}
	if f.Kept = f.Cached; f.Cached > 0 {
		s.stats.Hits++
	}
	switch {
	case f.Cached == r.len():
		f.Miss = Miss{Whole, f.Cached}
	case f.Cached > f.Miss.At: // another process read the rest of the known text
		f.Miss = Miss{Longer, f.Cached}
	}
	s.stats.Cached += int64(f.Cached)
	s.stats.Missed[f.Miss.Reason]++
	return f
}

// worthAList reports whether the bucket could have a mark after position cached, up to most.
func (s *Store) worthAList(r *reading, cached, most int) bool {
	return slices.ContainsFunc(r.cuts, func(c cut) bool { return c.rung && c.at > cached && c.at <= most })
}

// look searches memory for the best mark, and then the index for better objects. The objects are returned best first.
func (s *Store) look(r *reading, keys []key, most int) (f *Found, stored []*object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.tree.follow(s.origin, r)
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

// miss explains why there is no mark after position cached of a text.
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
	k := same(next, rest) // k is less than both lengths, since otherwise they would share another piece
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
