package store

import (
	"container/heap"

	"github.com/hippo-ssm/hippo/session"
)

// mark is a snapshot in memory. Marks are evicted by the algorithm GreedyDual-Size with frequencies (Cherkasova, 1998).
// The worth of a mark is the cost of reading its text again per byte, times the number of its uses, plus the clock at
// its last use. The clock is the worth of the last evicted mark, so an unused mark is eventually evicted, whatever its
// cost.
type mark struct {
	snapshot *session.Snapshot
	key      key
	at       *node
	bytes    int64   // bytes that adding it took
	own      int64   // bytes that no other mark shares
	paged    int64   // bytes of its pages
	uses     int     // number of uses, including the addition
	clock    float64 // at the last use
	worth    float64 // at the last computation
	place    int     // index in the heap
	stored   bool    // also in the bucket
	leaving  bool    // being written to the bucket, to be evicted
}

// value returns the worth of the mark in tokens per byte, without the clock. Of its pages it counts the share that the
// mark before it lacks.
func (m *mark) value() float64 {
	tokens := float64(m.tokens())
	bytes := float64(m.own) + float64(m.paged)*tokens/float64(m.at.end())
	return tokens * m.at.share() * float64(m.uses) / bytes
}

// tokens returns how many ids would have to be read again without the mark.
func (m *mark) tokens() int { return m.at.end() - m.at.markBefore() }

// share estimates the fraction of later texts through a node that continue from its mark. It is 1 for a leaf and for a
// node where texts have diverged. If a single text follows, share is the probability that a later text diverges before
// the next mark, assuming that all positions up to that mark are equally likely.
func (n *node) share() float64 {
	next := n
	for len(next.kids) == 1 {
		if next = next.kids[0]; next.mark != nil {
			return float64(next.end()-n.end()) / float64(next.end())
		}
	}
	if next != n && len(next.kids) > 1 { // texts diverge at the node next, which has no mark
		return float64(next.end()-n.end()) / float64(next.end())
	}
	return 1
}

// marks holds the marks in memory, in a heap with the least worth first.
type marks struct {
	heap    []*mark
	pages   pages
	bytes   int64
	stored  int64 // size of the marks that are also in the bucket
	clock   float64
	leaving int // number of marks being written
}

func (h *marks) Len() int           { return len(h.heap) }
func (h *marks) Less(i, j int) bool { return h.heap[i].worth < h.heap[j].worth }
func (h *marks) Swap(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].place, h.heap[j].place = i, j
}

// Push implements heap.Interface.
func (h *marks) Push(x any) {
	m := x.(*mark)
	m.place = len(h.heap)
	h.heap = append(h.heap, m)
}

// Pop implements heap.Interface.
func (h *marks) Pop() any {
	last := len(h.heap) - 1
	m := h.heap[last]
	h.heap[last] = nil
	h.heap = h.heap[:last]
	return m
}

// fresh returns the number of bytes that new marks would add.
func (h *marks) fresh(all []*session.Snapshot) (bytes int64) {
	for _, s := range all {
		own, _ := snapshotSize(s)
		bytes += own + h.pages.hold(s)
	}
	for _, s := range all {
		h.pages.release(s)
	}
	return bytes
}

// add adds the mark of a node.
func (h *marks) add(m *mark) {
	m.own, m.paged = snapshotSize(m.snapshot)
	m.bytes = m.own + h.pages.hold(m.snapshot)
	h.bytes += m.bytes
	m.clock, m.uses = h.clock, 1
	m.worth = m.clock + m.value()
	heap.Push(h, m)
	if m.stored {
		h.stored += m.bytes
	}
	h.around(m.at)
}

// use records a use of a mark.
func (h *marks) use(m *mark) {
	m.clock = h.clock
	m.uses++
	h.weigh(m)
}

// weigh recomputes the worth of a mark.
func (h *marks) weigh(m *mark) {
	if worth := m.clock + m.value(); worth != m.worth {
		m.worth = worth
		heap.Fix(h, m.place)
	}
}

// around recomputes the worth of the marks before and after a node whose mark was added or removed. If several texts
// continue after the node, it skips their marks: least recomputes a mark before evicting it.
func (h *marks) around(n *node) {
	for p := n.parent; p != nil; p = p.parent {
		if p.mark != nil {
			h.weigh(p.mark)
			break
		}
	}
	for len(n.kids) == 1 {
		if n = n.kids[0]; n.mark != nil {
			h.weigh(n.mark)
			break
		}
	}
}

// look is the maximum number of marks that least skips.
const look = 32

// least returns the mark to evict next, or nil. It skips marks that are being written and, with storedOnly, marks that
// are not in the bucket. It gives up after skipping look marks, since other goroutines wait for the lock.
func (h *marks) least(storedOnly bool) *mark {
	var passed []*mark
	defer func() {
		for _, m := range passed {
			heap.Push(h, m)
		}
	}()
	for len(h.heap) > 0 && len(passed) < look {
		m := h.heap[0]
		if m.leaving || storedOnly && !m.stored {
			passed = append(passed, heap.Pop(h).(*mark))
			continue
		}
		before := m.worth
		if h.weigh(m); m.worth <= before {
			return m
		}
	}
	return nil
}

// remove removes a mark from the tree and the heap.
func (h *marks) remove(m *mark) {
	heap.Remove(h, m.place)
	h.bytes -= m.own + h.pages.release(m.snapshot)
	if m.stored {
		h.stored -= m.bytes
	}
	n := m.at
	n.mark, m.at = nil, nil
	h.around(n)
}

// unwritten returns a mark of about the least worth that is neither in the bucket nor being written, or nil.
func (h *marks) unwritten() *mark {
	for _, m := range h.heap {
		if !m.stored && !m.leaving && m.tokens() >= fewest {
			return m
		}
	}
	return nil
}
