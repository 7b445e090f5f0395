package added

// automaton finds all occurrences of a set of strings in a text in one pass (Aho and Corasick, "Efficient String
// Matching", 1975). It is a trie of the strings in which every node has a link to the node of its longest proper
// suffix. The time is linear in the text, even for highly repetitive strings.
type automaton struct {
	nodes []acNode
	root  [256]int32 // children of the root, 0 for none
}

// acNode is a node: the prefix of a string that has been read so far. Node 0, the root, is the empty string.
type acNode struct {
	more  map[byte]int32 // children except the first; most nodes have one child
	child int32          // first child, 0 for none
	by    byte           // byte that leads to the first child
	depth int32
	fail  int32 // the node of the longest proper suffix that is a node
	end   int32 // nearest node along fail, starting with this one, in which a string ends; 0 for none
	id    int32 // id of the string that ends here, or -1
}

// newAutomaton returns the automaton of the tokens' contents, which must not be empty. If two are equal, the first one
// is used. at returns byte i of a string, so strings can be read backwards.
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

// grow returns the child of a node, and creates it if there is none.
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

// link sets fail and end of all nodes, starting at the root, since they depend only on nodes of smaller depth.
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

// step reads a byte: it returns the node of the longest suffix of the bytes read so far that has a node. It adds the
// number of nodes visited to work, on average at most two for each byte.
func (a *automaton) step(node int32, b byte, work *int) int32 {
	for {
		*work++
		if to := a.next(node, b); to != 0 || node == 0 {
			return to
		}
		node = a.nodes[node].fail
	}
}
