package store

import (
	"container/heap"

	"github.com/hippo-ssm/hippo/session"
)

// mark is a snapshot in memory. Marks are evicted by the algorithm GreedyDual-Size with frequencies (Cherkasova, 1998).
// The worth of a mark is the cost of reading it again per byte, times the number of its uses, plus the clock at its
// last use. The clock is the worth of the last evicted mark, so an unused mark is evicted at some time, whatever its
// cost.
type mark struct {
	snapshot *session.Snapshot
	key      key
	at       *node
	bytes    int64   // bytes that it added
	own      int64   // bytes that no other mark shares
	paged    int64   // bytes of its pages
	uses     int     // number of uses, plus 1 for adding it
	clock    float64 // at the last use
	worth    float64 // at the last computation
	place    int     // index in the heap
	stored   bool    // also in the bucket
	leaving  bool    // being written to the bucket, to be evicted
}

// value returns the worth of the mark in tokens per byte, without the clock. It counts the pages that the mark before
// it lacks.
func (m *mark) value() float64 {
	tokens := float64(m.tokens())
	bytes := float64(m.own) + float64(m.paged)*tokens/float64(m.at.end())
	return tokens * m.at.share() * float64(m.uses) / bytes
}

// tokens returns how many ids are read again without the mark.
func (m *mark) tokens() int { return m.at.end() - m.at.markBefore() }

// share estimates the fraction of later texts through a node that continue from its mark. It is 1 for a leaf, and where
// texts have diverged before. If one text follows, a text diverges from it before the next mark with the probability of
// its length up to that mark, assuming that it diverges anywhere in the text.
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

// marks is the heap of the marks in memory, least worth first.
type marks struct {
	heap    []*mark
	pages   pages
	bytes   int64
	stored  int64 // size of those that are also in the bucket
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

// fresh returns the bytes that new marks add.
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

// use records that a session continues from a mark.
func (h *marks) use(m *mark) {
	m.clock = h.clock
	m.uses++
	h.weigh(m)
}

// weigh computes the worth of a mark again.
func (h *marks) weigh(m *mark) {
	if worth := m.clock + m.value(); worth != m.worth {
		m.worth = worth
		heap.Fix(h, m.place)
	}
}

// around computes the worth of the marks before and after a node again, when its mark was added or removed. If several
// texts continue after the node, it skips theirs: least notices what has gained.
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

// look is the number of marks that least skips at most.
const look = 32

// least returns the mark to evict next, or nil. It skips marks being written and, with storedOnly, those not in the
// bucket; it gives up after some, since others are waiting.
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

// unwritten returns a mark that is not in the bucket and not being written: about the one of least worth.
func (h *marks) unwritten() *mark {
	for _, m := range h.heap {
		if !m.stored && !m.leaving && m.tokens() >= fewest {
			return m
		}
	}
	return nil
}
