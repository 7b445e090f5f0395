package store

import (
	"container/list"
	"slices"
)

// tree is all texts that a store knows.
type tree struct {
	root  *node
	bytes int64 // of all nodes, without marks
	// bare are the leaves without a mark, the longest unused first: they serve to say why something is not found, and
	// have log-probabilities.
	bare      list.List
	bareBytes int64
}

// node is a run of pieces of one text or of several that start with the same pieces. The tree of nodes holds all texts
// that the store knows: the way from the root to a node is the start of a text. Nodes part at the ends of pieces
// only, so two children may start with the same ids, in other pieces or with others after them in the same piece.
type node struct {
	parent *node
	start  int       // position before its first id
	syms   []uint32  // as those of reading; the last one ends a piece, except in the root, which has none
	logp   []float32 // the log-probability of each id, or nil if all are unknown
	kids   []*node   // in the order of syms
	mark   *mark     // at its end, or nil
	// evicted tells that there was a mark which is gone.
	evicted bool
	bare    *list.Element // of tree.bare, or nil
	counted int64         // of tree.bareBytes
}

// end is the position after its last id.
func (n *node) end() int { return n.start + len(n.syms) }

// size is the number of bytes of the node without its mark.
func (n *node) size() int64 { return nodeSize + 4*int64(len(n.syms)) + 4*int64(len(n.logp)) }

// nodeSize is the memory of a node besides its slices: of itself, of its place among the children of another, and what
// the allocator adds.
const nodeSize = 256

// find is the place among the children of the one that starts with the first piece of syms, or where it would be.
func (n *node) find(syms []uint32) (i int, found bool) {
	i, _ = slices.BinarySearchFunc(n.kids, syms, func(kid *node, syms []uint32) int {
		return slices.Compare(kid.syms, syms)
	})
	// A child that starts with the piece stands on either side of where all of syms would be.
	for _, j := range []int{i - 1, i} {
		if j >= 0 && j < len(n.kids) && samePieces(n.kids[j].syms, syms) > 0 {
			return j, true
		}
	}
	return i, false
}

// same is how many numbers a and b start with in common.
func same(a, b []uint32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// samePieces is how many numbers a and b start with in whole pieces in common.
func samePieces(a, b []uint32) int {
	n := same(a, b)
	for n > 0 && a[n-1]&1 == 0 {
		n--
	}
	return n
}

// way is how far a text goes along a tree.
type way struct {
	nodes  []*node // from the root to the last one that has a piece of the text
	shared int     // position up to which the pieces are the same as those of a known text
}

// follow goes along the tree with a text.
func (n *node) follow(r *reading) way {
	w := way{nodes: []*node{n}}
	for w.shared < r.len() {
		i, found := n.find(r.syms[w.shared:])
		if !found {
			break
		}
		n = n.kids[i]
		w.nodes = append(w.nodes, n)
		w.shared += samePieces(n.syms, r.syms[w.shared:])
		if w.shared < n.end() {
			break
		}
	}
	return w
}

// last is the last node of the way.
func (w *way) last() *node { return w.nodes[len(w.nodes)-1] }

// logProbs copies what is known of the ids of the way.
func (w *way) logProbs() []float32 {
	out := make([]float32, 0, w.shared)
	for _, n := range w.nodes[1:] {
		l := min(n.end(), w.shared) - n.start
		for i := range l {
			if n.logp == nil {
				out = append(out, unknown)
			} else {
				out = append(out, n.logp[i])
			}
		}
	}
	return out
}

// next are the pieces that a known text continues with where the way ends, of the text that has the most ids in common
// with r, or nil if no known text continues there.
func (w *way) next(r *reading) []uint32 {
	n := w.last()
	if w.shared < n.end() {
		return n.syms[w.shared-n.start:]
	}
	i, _ := n.find(r.syms[w.shared:])
	var best []uint32
	for _, j := range []int{i - 1, i} {
		if j >= 0 && j < len(n.kids) && (best == nil ||
			same(n.kids[j].syms, r.syms[w.shared:]) > same(best, r.syms[w.shared:])) {
			best = n.kids[j].syms
		}
	}
	return best
}

// newTree returns a tree of no text.
func newTree() tree {
	t := tree{root: &node{}}
	t.bytes = t.root.size()
	return t
}

// settle puts a node among the bare ones or takes it away from there, after a change.
func (t *tree) settle(n *node) {
	if n.bare != nil {
		t.bare.Remove(n.bare)
		t.bareBytes -= n.counted
		n.bare, n.counted = nil, 0
	}
	if len(n.kids) == 0 && n.mark == nil && n.parent != nil {
		n.bare, n.counted = t.bare.PushBack(n), n.size()
		t.bareBytes += n.counted
	}
}

// split makes a node end at a position inside it, which is the end of a piece, and returns the node for the rest, which
// takes the mark. Each has its own memory: the other may go first.
func (t *tree) split(n *node, at int) *node {
	l := at - n.start
	rest := &node{parent: n, start: at, syms: slices.Clone(n.syms[l:]), kids: n.kids, mark: n.mark, evicted: n.evicted}
	for _, kid := range rest.kids {
		kid.parent = rest
	}
	if rest.mark != nil {
		rest.mark.at = rest
	}
	if n.logp != nil {
		n.logp, rest.logp = slices.Clone(n.logp[:l]), slices.Clone(n.logp[l:])
	}
	n.syms, n.kids, n.mark, n.evicted = slices.Clone(n.syms[:l]), []*node{rest}, nil, false
	t.bytes += nodeSize
	t.settle(n)
	t.settle(rest)
	return rest
}

// grow adds what the way lacks of a text. The way then ends where the text does.
func (t *tree) grow(w *way, r *reading) {
	if w.shared == r.len() {
		return
	}
	n := w.last()
	if w.shared < n.end() {
		t.split(n, w.shared)
	}
	kid := &node{parent: n, start: w.shared, syms: slices.Clone(r.syms[w.shared:])}
	i, _ := n.find(kid.syms)
	n.kids = slices.Insert(n.kids, i, kid)
	t.bytes += kid.size()
	t.settle(n)
	t.settle(kid)
	w.nodes, w.shared = append(w.nodes, kid), r.len()
}

// at makes a node of the way end at a position, the end of a piece, and returns it.
func (t *tree) at(w *way, position int) *node {
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.end() >= position })
	n := w.nodes[i]
	if n.end() > position {
		if rest := t.split(n, position); w.shared > position {
			w.nodes = slices.Insert(w.nodes, i+1, rest)
		}
	}
	return n
}

// learn notes log-probabilities of the first ids of a way. Where they are known they stay: they are the same.
func (t *tree) learn(w *way, logp []float32) {
	for _, n := range w.nodes[1:] {
		end := min(n.end(), w.shared, len(logp))
		if end <= n.start {
			break
		}
		part := logp[n.start:end]
		if !slices.ContainsFunc(part, func(p float32) bool { return !isUnknown(p) }) {
			continue
		}
		if n.logp == nil {
			n.logp = make([]float32, len(n.syms))
			for i := range n.logp {
				n.logp[i] = unknown
			}
			t.bytes += 4 * int64(len(n.logp))
			t.settle(n)
		}
		for i, p := range part {
			if !isUnknown(p) {
				n.logp[i] = p
			}
		}
	}
}

// forgetOldest removes the bare leaf that has been unused for longest, and says whether there is one.
func (t *tree) forgetOldest() bool {
	oldest := t.bare.Front()
	if oldest == nil {
		return false
	}
	n := oldest.Value.(*node)
	p := n.parent
	i := slices.Index(p.kids, n)
	p.kids = slices.Delete(p.kids, i, i+1)
	t.bytes -= n.size()
	n.parent = nil
	t.settle(n)
	t.settle(p)
	return true
}

// markBefore is the position of the next mark before a node, 0 for none.
func (n *node) markBefore() int {
	for p := n.parent; p != nil; p = p.parent {
		if p.mark != nil {
			return p.end()
		}
	}
	return 0
}
