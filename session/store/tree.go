package store

import (
	"container/list"
	"slices"
)

// tree holds all texts that the store knows.
type tree struct {
	roots map[key]*node // by the origin of the scope; the first root always exists, others while they have texts
	first key
	bytes int64 // size of all nodes, without marks
	// bare lists the leaves without a mark, least recently used first. They only serve to explain misses and to store
	// log-probabilities.
	bare      list.List
	bareBytes int64
}

// node is a sequence of pieces of one text, or of several texts with the same prefix. The path from the root to a node
// is a prefix of these texts. Nodes diverge only at the ends of pieces: two children may start with the same ids if
// they are divided into other pieces or followed by other ids in the same piece.
type node struct {
	parent *node
	start  int       // position of its first id
	syms   []uint32  // as in reading; the last one ends a piece; empty in a root
	logp   []float32 // the log-probability of each id, or nil if all are unknown
	kids   []*node   // in the order of syms
	mark   *mark     // the mark at its end, or nil
	// evicted reports whether its mark was evicted.
	evicted bool
	bare    *list.Element // of tree.bare, or nil
	counted int64         // its size as counted in tree.bareBytes
	origin  *key          // the origin of a root, nil in other nodes
}

// end returns the position after its last id.
func (n *node) end() int { return n.start + len(n.syms) }

// size returns the size of the node in bytes without its mark.
func (n *node) size() int64 { return nodeSize + 4*int64(len(n.syms)) + 4*int64(len(n.logp)) }

// nodeSize is the memory in bytes of a node without its slices: the node, its entry in its parent, and the overhead of
// the allocator.
const nodeSize = 256

// find returns the index of the child that starts with the first piece of syms, or where it would be inserted.
func (n *node) find(syms []uint32) (i int, found bool) {
	i, _ = slices.BinarySearchFunc(n.kids, syms, func(kid *node, syms []uint32) int {
		return slices.Compare(kid.syms, syms)
	})
	// A child that starts with the piece is next to the index at which syms would be inserted.
	for _, j := range []int{i - 1, i} {
		if j >= 0 && j < len(n.kids) && samePieces(n.kids[j].syms, syms) > 0 {
			return j, true
		}
	}
	return i, false
}

// same returns the length of the common prefix of a and b.
func same(a, b []uint32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// samePieces returns the length of the common prefix of a and b that consists of whole pieces.
func samePieces(a, b []uint32) int {
	n := same(a, b)
	for n > 0 && a[n-1]&1 == 0 {
		n--
	}
	return n
}

// way is the path of a text in a tree.
type way struct {
	nodes  []*node // from the root to the last one with a piece of the text
	shared int     // end of the pieces that the text has in common with a known text
}

// follow returns the path of a text.
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

// last returns the last node of the path.
func (w *way) last() *node { return w.nodes[len(w.nodes)-1] }

// logProbs returns a copy of the known log-probabilities of the path.
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

// next returns the symbols with which a known text continues after the path, or nil if none continues. If several do,
// it returns those of the text with the most ids in common with r.
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

// newTree returns an empty tree.
func newTree(first key) tree {
	t := tree{roots: map[key]*node{}, first: first}
	t.root(first)
	return t
}

// root returns the root of a scope. It adds the root if it does not exist.
func (t *tree) root(origin key) *node {
	n := t.roots[origin]
	if n == nil {
		n = &node{origin: &origin}
		t.roots[origin] = n
		t.bytes += n.size()
	}
	return n
}

// follow returns the path of a text in a scope. The scope need not have a root.
func (t *tree) follow(origin key, r *reading) way {
	if n := t.roots[origin]; n != nil {
		return n.follow(r)
	}
	return (&node{}).follow(r)
}

// settle updates the bare list after a change of a node: it adds or removes the node.
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

// split ends a node at the end of a piece inside it and returns a new child node for the rest, which takes over the
// mark. The nodes have separate memory, since either may be evicted first.
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

// grow adds the rest of a text to the tree and to the path.
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

// at returns the node of the path that ends at a position. It splits a node if necessary. The position must be the end
// of a piece.
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

// learn stores the log-probabilities of the first ids of a path.
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

// forgetOldest removes the least recently used bare leaf and reports whether there was one.
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
	if p.origin != nil && *p.origin != t.first && len(p.kids) == 0 {
		delete(t.roots, *p.origin)
		t.bytes -= p.size()
	}
	return true
}

// markBefore returns the position of the nearest mark before a node, or 0.
func (n *node) markBefore() int {
	for p := n.parent; p != nil; p = p.parent {
		if p.mark != nil {
			return p.end()
		}
	}
	return 0
}
