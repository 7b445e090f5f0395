package added

// automaton finds all places of a set of strings in a text in one pass (Aho and Corasick, "Efficient String Matching",
// 1975): a trie of the strings in which every node knows the node of its longest proper suffix. Time is linear in the
// text, even for highly repetitive strings.
type automaton struct {
	nodes []acNode
	root  [256]int32 // the children of the root, 0 for none
}

// acNode is a node: the part of a string read so far. Node 0, the root, is the empty string.
type acNode struct {
	more  map[byte]int32 // children but the first; most nodes have one
	child int32          // the first child, 0 for none
	by    byte           // and the byte that leads there
	depth int32
	fail  int32 // the node of the longest proper suffix that is a node
	end   int32 // the nearest node in which a string ends, along fail from here on; 0 for none
	id    int32 // of the string that ends here, or -1
}

// newAutomaton returns the automaton of strings that are not empty. Of two equal ones the first counts. at gives byte i
// of a string, which may be read backwards.
func newAutomaton(tokens []Token, at func(s string, i int) byte) *automaton {
	a := &automaton{nodes: []acNode{{id: -1}}}
	for _, t := range tokens {
		node := int32(0)
		for i := range len(t.Content) {
			node = a.grow(node, at(t.Content, i))
		}
		if a.nodes[node].id < 0 {
			a.nodes[node].id = t.ID
		}
	}
	a.link()
	return a
}

// next returns the child of a node, 0 for none.
func (a *automaton) next(node int32, b byte) int32 {
	if node == 0 {
		return a.root[b]
	}
	n := &a.nodes[node]
	if n.child != 0 && n.by == b {
		return n.child
	}
	return n.more[b]
}

// grow returns the child of a node, and makes it if there is none.
func (a *automaton) grow(node int32, b byte) int32 {
	if to := a.next(node, b); to != 0 {
		return to
	}
	to := int32(len(a.nodes))
	a.nodes = append(a.nodes, acNode{id: -1, depth: a.nodes[node].depth + 1})
	n := &a.nodes[node]
	switch {
	case node == 0:
		a.root[b] = to
	case n.child == 0:
		n.child, n.by = to, b
	default:
		if n.more == nil {
			n.more = map[byte]int32{}
		}
		n.more[b] = to
	}
	return to
}

// link sets fail and end of all nodes, from the root down: they depend on nodes of smaller depth only.
func (a *automaton) link() {
	var queue []int32
	for _, to := range a.root {
		if to != 0 {
			queue = append(queue, to) // their fail is the root
		}
	}
	visit := func(from, to int32, b byte) {
		var work int
		a.nodes[to].fail = a.step(a.nodes[from].fail, b, &work)
		queue = append(queue, to)
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		n := &a.nodes[at]
		n.end = a.nodes[n.fail].end
		if n.id >= 0 {
			n.end = at
		}
		if n.child != 0 {
			visit(at, n.child, n.by)
		}
		for b, to := range n.more {
			visit(at, to, b) // the order does not matter: all nodes of smaller depth are linked
		}
	}
}

// step reads a byte: it goes to the node of the longest suffix of what was read that is a node. It counts the nodes it
// looks at, on average at most two for a byte.
func (a *automaton) step(node int32, b byte, work *int) int32 {
	for {
		*work++
		if to := a.next(node, b); to != 0 || node == 0 {
			return to
		}
		node = a.nodes[node].fail
	}
}
