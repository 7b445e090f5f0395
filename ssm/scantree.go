package ssm

// ScanNode is a range of steps of [Selective], From to To-1, as one map x → Decay·x + Add: a single step, or the
// composition of two adjacent ranges, Left and then Right.
type ScanNode struct {
	From, To   int
	Decay, Add []complex128 // (n)
	// Round is the round in which cores that each join one pair per round can compute the node: 0 for a step, otherwise
	// one more than the later of its parts.
	Round       int
	Left, Right int // indexes of the nodes, -1 for a step
}

// ScanTree returns every composition that [Selective.ParallelScan] makes over u (l): first the l steps, then the joined
// ranges in the order in which one core computes them. prefix[k] is the index of the range from 0 to k, whose Add is
// the state after step k from a state of zero.
//
//	(a, b) then (c, d) is (c a, c b + d)
//
// One after another, l - 1 compositions would do. The tree makes fewer than 2 l, but in about 2 log₂ l rounds.
func (s *Selective) ScanTree(u []float64) (nodes []ScanNode, prefix []int) {
	leaves := make([]int, len(u))
	for k, v := range u {
		f := s.step(k, v)
		leaves[k] = k
		nodes = append(nodes, ScanNode{From: k, To: k + 1, Decay: f.decay, Add: f.add, Left: -1, Right: -1})
	}
	prefix = prefixes(leaves, func(left, right int) int {
		f, g := nodes[left], nodes[right]
		h := affine{f.Decay, f.Add}.then(affine{g.Decay, g.Add})
		nodes = append(nodes, ScanNode{From: f.From, To: g.To, Decay: h.decay, Add: h.add,
			Round: 1 + max(f.Round, g.Round), Left: left, Right: right})
		return len(nodes) - 1
	})
	return nodes, prefix
}
