package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/session"
)

// Put stores a text with marks, each at the end of a piece of its plan, and with the log-probabilities of its first
// ids: NaN if unknown, nil for none. The marks must be the states that reading the plan gives. They may be shared,
// since they never change. Marks that fit neither in memory nor in the bucket are lost, which is not an error.
func (s *Store) Put(ctx context.Context, plan []session.Segment, logp []float32, marks ...*session.Snapshot) error {
	r := read(plan, s.o.Identity.Chunk)
	if r.len() == 0 {
		return nil
	}
	if len(logp) > r.len() {
		return fmt.Errorf("store: %d log-probabilities of %d ids", len(logp), r.len())
	}
	for _, m := range marks {
		if m.Position < 1 || !r.isCut(m.Position) {
			return fmt.Errorf("store: a mark at position %d of %d, want the end of a piece of the plan", m.Position,
				r.len())
		}
	}
	_ = s.put(ctx, r, r.keys(s.origin), logp, false, marks...) // lost marks are counted
	return nil
}

// keyAt returns the key of a cut.
func keyAt(r *reading, keys []key, position int) key {
	i, _ := slices.BinarySearchFunc(r.cuts, position, func(c cut, at int) int { return c.at - at })
	return keys[i]
}

// ErrTooLarge reports that a mark was not stored because it is larger than all memory and there is no bucket. It is
// reported once. A store with a memory budget of 0 does not report it.
var ErrTooLarge = errors.New("a state is larger than the memory for states")

// errLost reports that a mark was not stored.
var errLost = errors.New("store: found no room for a mark")

// put is like Put, but returns an error unless all marks are stored. Marks loaded from the bucket evict only marks that
// are stored in the bucket, so that a lookup does not wait for writes.
func (s *Store) put(ctx context.Context, r *reading, keys []key, logp []float32, loaded bool,
	marks ...*session.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	need := func() int64 { return textSize(r, logp, len(marks)) + s.marks.fresh(marks) }
	if !s.makeRoom(ctx, need, loaded) {
		switch bytes := need(); {
		case loaded:
			return errLost
		case s.o.Bucket == nil && s.o.Memory > 0 && bytes > s.most():
			return s.giveUp(bytes, len(marks))
		}
		return s.writeThrough(ctx, r, keys, logp, marks)
	}
	w := s.tree.root(s.origin).follow(r)
	s.tree.grow(&w, r)
	s.tree.learn(&w, logp)
	for _, m := range marks {
		n := s.tree.at(&w, m.Position)
		if old := n.mark; old != nil {
			if old.snapshot.Logits != nil || m.Logits == nil || old.leaving {
				s.marks.use(old)
				continue
			}
			s.marks.remove(old)
		}
		n.mark = &mark{snapshot: m, key: keyAt(r, keys, m.Position), at: n, stored: loaded}
		n.evicted = false
		s.marks.add(n.mark)
		s.tree.settle(n)
	}
	s.writeAhead()
	return nil
}

// giveUp counts marks that are too large and reports the first. s.mu must be held; giveUp releases it while it reports.
func (s *Store) giveUp(bytes int64, marks int) error {
	s.stats.Lost += marks
	s.stats.TooLarge += marks
	err := fmt.Errorf("%w: found %d bytes with its text, want at most %d", ErrTooLarge, bytes, s.most())
	if s.stats.TooLarge == marks {
		s.mu.Unlock()
		s.tell(err)
		s.mu.Lock()
	}
	return err
}

// writeAhead writes marks to the bucket in the background if little memory is free or can be freed at once. Later
// requests then need not wait for writes.
func (s *Store) writeAhead() {
	free := func() int64 { return s.o.Memory - s.memory() + s.marks.stored }
	if s.o.Bucket == nil || s.ahead || free() >= s.o.Memory/8 {
		return
	}
	s.ahead = true
	s.writers.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for m := s.marks.unwritten(); m != nil && free() < s.o.Memory/4; m = s.marks.unwritten() {
			if s.store(context.Background(), m) != nil {
				break
			}
			s.makeRoom(context.Background(), noMore, true) // for the mark's entry in the index
		}
		s.ahead = false
	})
}

// textSize returns the maximum memory in bytes of a text with the given number of marks in the tree.
func textSize(r *reading, logp []float32, marks int) int64 {
	n := 4*int64(r.len()) + nodeSize*int64(3+2*marks) // including a root
	if logp != nil {
		n += 4 * int64(r.len())
	}
	return n
}

// bareShare limits texts without a mark: if they take more than 1/bareShare of the memory, they are evicted before
// marks.
const bareShare = 8

// fewest is the minimum number of tokens that a mark must save to be written to the bucket. Reading fewer again is as
// fast.
const fewest = 8

// noMore is a need of makeRoom for no additional bytes.
func noMore() int64 { return 0 }

// most returns the maximum memory of marks and texts. The rest is for the index entries of objects being written.
func (s *Store) most() int64 { return s.o.Memory - min(s.o.Memory/16, 64*objectSize) }

// makeRoom evicts the marks of least worth until the needed bytes are free, and reports whether they are. The need can
// grow when an evicted mark shared pages. s.mu must be held; makeRoom releases it while it writes marks to the bucket.
// With storedOnly it writes none.
func (s *Store) makeRoom(ctx context.Context, need func() int64, storedOnly bool) bool {
	most, bytes := s.most(), need()
	if bytes > most {
		return false
	}
	for ; s.memory()+bytes > most; bytes = need() {
		if s.tree.bareBytes > s.o.Memory/bareShare && s.tree.forgetOldest() {
			continue
		}
		m := s.marks.least(true)
		if m == nil && !storedOnly {
			m = s.marks.least(false)
		}
		switch {
		case m != nil && (s.isStored(m) || s.o.Bucket == nil || m.tokens() < fewest):
			s.evict(m)
		case m != nil && !storedOnly:
			s.spill(ctx, m)
		case s.tree.forgetOldest():
		case s.marks.leaving > 0 && !storedOnly:
			s.free.Wait()
		default:
			return false
		}
	}
	return true
}

// isStored reports whether a mark is in the bucket, as far as the index knows: another process may have removed it.
func (s *Store) isStored(m *mark) bool {
	if m.stored && s.index.objects[m.key] == nil {
		m.stored = false
		s.marks.stored -= m.bytes
	}
	return m.stored
}

// evict removes a mark from memory.
func (s *Store) evict(m *mark) {
	n := m.at
	if !s.isStored(m) {
		s.stats.Lost++
	}
	s.marks.clock = max(s.marks.clock, m.worth)
	s.marks.remove(m)
	n.evicted = true
	s.tree.settle(n)
}

// spill moves a mark to the bucket. s.mu must be held; spill releases it during the write, when the mark can still be
// found.
func (s *Store) spill(ctx context.Context, m *mark) {
	s.store(ctx, m)
	s.evict(m)
}

// store writes a mark to the bucket. s.mu must be held; store releases it during the write. Meanwhile m.leaving keeps
// other goroutines from evicting the mark.
func (s *Store) store(ctx context.Context, m *mark) error {
	m.leaving = true
	s.marks.leaving++
	defer func() {
		m.leaving = false
		s.marks.leaving--
		s.free.Broadcast()
	}()
	before, logp := m.at.beforeID(), m.at.logProbs()
	s.mu.Unlock()
	// The caller's context may be done, but the mark may belong to another call and must not be lost.
	err := s.write(context.WithoutCancel(ctx), m.key, m.snapshot, before, logp)
	if err != nil {
		s.tell(err)
	}
	s.mu.Lock()
	if err == nil {
		s.stats.Writes++
		m.stored = true
		s.marks.stored += m.bytes
	}
	return err
}

// Flush writes all marks in memory to the bucket, for other processes. The marks also stay in memory. Errors are both
// reported and returned.
func (s *Store) Flush(ctx context.Context) error {
	if s.o.Bucket == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, m := range slices.Clone(s.marks.heap) {
		if m.at == nil || m.leaving || s.isStored(m) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, s.store(ctx, m))
		s.makeRoom(ctx, noMore, true) // for the mark's entry in the index
	}
	for s.marks.leaving > 0 { // marks that other goroutines are writing
		s.free.Wait()
	}
	return errors.Join(errs...)
}

// none is the id that stands for no mark.
var none = strings.Repeat("0", idLen)

// id returns the first digits of a key.
func (k key) id() string { return hex.EncodeToString(k[:idLen/2]) }

// beforeID returns the id of the nearest mark before a node, or none.
func (n *node) beforeID() string {
	for p := n.parent; p != nil; p = p.parent {
		if p.mark != nil {
			return p.mark.key.id()
		}
	}
	return none
}

// logProbs returns the log-probabilities of all ids up to the end of a node, or nil if none is known.
func (n *node) logProbs() []float32 {
	w := way{shared: n.end()}
	known := false
	for p := n; p != nil; p = p.parent {
		w.nodes = append(w.nodes, p)
		known = known || p.logp != nil
	}
	if !known {
		return nil
	}
	slices.Reverse(w.nodes)
	return w.logProbs()
}

// writeThrough writes marks that do not fit in memory to the bucket. It returns an error unless all are written. s.mu
// must be held; writeThrough releases it during the writes.
func (s *Store) writeThrough(ctx context.Context, r *reading, keys []key, logp []float32,
	marks []*session.Snapshot) (failed error) {
	if s.o.Bucket == nil {
		s.stats.Lost += len(marks)
		return errLost
	}
	before := none
	for _, m := range marks {
		k := keyAt(r, keys, m.Position)
		s.mu.Unlock()
		err := s.write(context.WithoutCancel(ctx), k, m, before, logp[:min(len(logp), m.Position)])
		if err != nil {
			s.tell(err)
		}
		s.mu.Lock()
		if err != nil {
			s.stats.Lost++
			failed = errLost
			continue
		}
		s.stats.Writes++
		before = k.id()
	}
	return failed
}
