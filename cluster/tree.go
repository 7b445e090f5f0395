package cluster

import "math"

// Node is the sum of the shards from Width·At to before Width·(At+1), as far as these exist. Width is a power of two. A
// node's sum is the sum of its left half plus that of its right half: ((0+1)+(2+3))+...
type Node struct{ Width, At int }

// root returns the node of all shards.
func root(shards int) Node {
	n := Node{1, 0}
	for n.Width < shards {
		n.Width *= 2
	}
	return n
}

func (n Node) halves() (left, right Node) {
	return Node{n.Width / 2, 2 * n.At}, Node{n.Width / 2, 2*n.At + 1}
}

// Parent returns the node that n is a half of.
func (n Node) Parent() Node { return Node{2 * n.Width, n.At / 2} }

// Leaf returns the node of a single shard.
func Leaf(shard, shards int) Node { return Node{1, shard}.settled(shards) }

// held returns the largest nodes that one member holds alone, in the order of the tree, and their members. holders has
// a member for each shard. If apart is true, each shard is a node.
func held(holders []ID, apart bool) (nodes []Node, by []ID) {
	var visit func(n Node)
	visit = func(n Node) {
		lo, hi := n.Width*n.At, min(n.Width*(n.At+1), len(holders))
		if lo >= hi {
			return
		}
		for _, id := range holders[lo:hi] {
			if id != holders[lo] || apart && hi-lo > 1 {
				left, right := n.halves()
				visit(left)
				visit(right)
				return
			}
		}
		nodes, by = append(nodes, n.settled(len(holders))), append(by, holders[lo])
	}
	visit(root(len(holders)))
	return nodes, by
}

// settled returns the largest node with the same shards as n. A parent whose right half is empty has the sum of its
// left half.
func (n Node) settled(shards int) Node {
	for n.Width < shards && n.At%2 == 0 && n.Width*(n.At+1) >= shards {
		n = n.Parent()
	}
	return n
}

// addNodes adds the values of nodes in the order of the tree, in place. It returns the sum in the memory of the first
// node's values. nodes must be those of held.
func addNodes(shards int, nodes []Node, values [][]float32) []float32 {
	at := 0
	var sum func(n Node) []float32
	sum = func(n Node) []float32 {
		if n.Width*n.At >= shards {
			return nil
		}
		if nodes[at] == n.settled(shards) {
			at++
			return values[at-1]
		}
		l, r := n.halves()
		left := sum(l)
		right := sum(r)
		if len(right) > 0 {
			add(left, right)
		}
		return left
	}
	return sum(root(shards))
}

// add adds src to dst.
func add(dst, src []float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] += v
	}
}

// share cuts shards into runs in proportion to the speeds of members, in shards per second. Each member gets at least
// one shard. A cut lies at a multiple of the largest power of two for which it moves by at most a sixteenth of a
// member's share, so that a run has few nodes.
func share(shards int, speeds []float64) (runs []int) {
	total := 0.
	for _, v := range speeds {
		total += v
	}
	n, cut, gone := len(speeds), 0, 0.
	slack := max(0.5, float64(shards)/float64(16*n))
	for i, v := range speeds {
		gone += v
		next := shards
		if i < n-1 {
			next = roundest(float64(shards)*gone/total, slack)
		}
		next = min(max(next, cut+1), shards-(n-1-i))
		runs = append(runs, next-cut)
		cut = next
	}
	return runs
}

// roundest returns the multiple of the largest power of two that is at most slack from x.
func roundest(x, slack float64) int {
	for width := 1 << 20; width > 1; width /= 2 {
		if m := math.Round(x/float64(width)) * float64(width); math.Abs(m-x) <= slack && m > 0 {
			return int(m)
		}
	}
	return int(math.Round(x))
}
