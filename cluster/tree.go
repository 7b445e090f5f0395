package cluster

import "math"

// Node is the sum of the shards from Width·At to before Width·(At+1), as far as there are so many. Width is a power of
// two. A node's sum is the sum of its left half plus that of its right half: ((0+1)+(2+3))+...
type Node struct{ Width, At int }

// root is the node of all shards.
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

// Parent is the node that n is a half of.
func (n Node) Parent() Node { return Node{2 * n.Width, n.At / 2} }

// Leaf is the node of a shard alone.
func Leaf(shard, shards int) Node { return Node{1, shard}.settled(shards) }

// held are the largest nodes that one member holds alone, in the order of the tree, and who does. holders has a member
// for each shard. If they are apart, each shard is a node.
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

// settled is the largest node with the same shards: a right half that is empty makes its parent's sum that of the left.
func (n Node) settled(shards int) Node {
	for n.Width < shards && n.At%2 == 0 && n.Width*(n.At+1) >= shards {
		n = n.Parent()
	}
	return n
}

// addNodes adds the values of nodes in the order of the tree, into those of the first. nodes are those of held.
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

// share cuts shards into runs by the speeds of members, in shards per second: each member gets one or more. The cuts
// lie at multiples of powers of two as large as a sixteenth of a member's share allows, so that a run is few nodes.
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

// roundest is the multiple of the largest power of two that is at most slack from x.
func roundest(x, slack float64) int {
	for width := 1 << 20; width > 1; width /= 2 {
		if m := math.Round(x/float64(width)) * float64(width); math.Abs(m-x) <= slack && m > 0 {
			return int(m)
		}
	}
	return int(math.Round(x))
}
