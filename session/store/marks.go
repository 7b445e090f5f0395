package store

import (
	"container/heap"

	"github.com/hippo-ssm/hippo/session"
)

// mark is a snapshot in memory. Which ones go first when there is no more room is the algorithm GreedyDual-Size with
// frequencies (Cherkasova, 1998): a mark is worth what it would cost to read again per byte, times how often it has
// been used, on top of the clock at its last use, and the clock stands at what the last mark that went was worth. So a
// mark that no one uses any more goes some time, whatever it costs.
type mark struct {
	snapshot *session.Snapshot
	key      key
	at       *node
	bytes    int64   // that were not there before it came
	own      int64   // bytes that no other mark shares
	paged    int64   // bytes of its pages
	uses     int     // how often it was used, and 1 for having been put there
	clock    float64 // at the last use
	worth    float64 // when it was last computed
	place    int     // in the heap
	stored   bool    // in the bucket, too
	leaving  bool    // being written to the bucket, to make room
}

// value is what the mark is worth in tokens per byte, beyond the clock at its last use. Of its pages those are counted
// that the mark before it lacks.
func (m *mark) value() float64 {
	tokens := float64(m.tokens())
	bytes := float64(m.own) + float64(m.paged)*tokens/float64(m.at.end())
	return tokens * m.at.share() * float64(m.uses) / bytes
}

// tokens is how many ids are read again if the mark is gone.
func (m *mark) tokens() int { return m.at.end() - m.at.markBefore() }

// share estimates how many of the texts to come that go as far as the mark of a node continue from there. All of them
// do after a leaf, and where texts have parted before. Of those that go along the only text after it, some part before
// the next mark: as many as lie between the two, if they part anywhere in the text.
func (n *node) share() float64 {
	next := n
	for len(next.kids) == 1 {
		if next = next.kids[0]; next.mark != nil {
			return float64(next.end()-n.end()) / float64(next.end())
		}
	}
	if next != n && len(next.kids) > 1 { // they part at the node next, which has no mark
		return float64(next.end()-n.end()) / float64(next.end())
	}
	return 1
}

// marks are the marks in memory, a heap with the least worthy first.
type marks struct {
	heap    []*mark
	pages   pages
	bytes   int64
	stored  int64 // bytes of those that are in the bucket, too
	clock   float64
	leaving int // how many are
}

func (h *marks) Len() int           { return len(h.heap) }
func (h *marks) Less(i, j int) bool { return h.heap[i].worth < h.heap[j].worth }
func (h *marks) Swap(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].place, h.heap[j].place = i, j
}

// Push is a part of heap.Interface.
func (h *marks) Push(x any) {
	m := x.(*mark)
	m.place = len(h.heap)
	h.heap = append(h.heap, m)
}

// Pop is a part of heap.Interface.
func (h *marks) Pop() any {
	last := len(h.heap) - 1
	m := h.heap[last]
	h.heap[last] = nil
	h.heap = h.heap[:last]
	return m
}

// fresh is what marks that come take besides what exists.
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

// add takes a mark whose node has it already.
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

// weigh computes anew what a mark is worth.
func (h *marks) weigh(m *mark) {
	if worth := m.clock + m.value(); worth != m.worth {
		m.worth = worth
		heap.Fix(h, m.place)
	}
}

// around computes anew what the marks before and after a node are worth, whose mark has come or gone. Where several
// texts continue after the node, those there are left: least finds what has become dearer.
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

// look is how many marks that may not go least passes over.
const look = 32

// least is the mark to go next, or nil if there is none that may. Marks that are leaving are passed over, and, if only
// what is stored may go, those that are not; some of them, not all, as others wait.
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

// remove takes a mark out of the tree and the heap.
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

// unwritten is a mark that is not in the bucket, and not on the way: about the one that is worth the least of those
// that are to be written.
func (h *marks) unwritten() *mark {
	for _, m := range h.heap {
		if !m.stored && !m.leaving && m.tokens() >= fewest {
			return m
		}
	}
	return nil
}
