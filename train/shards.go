package train

import (
	"math/bits"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// shardSum adds the gradients of the shards of an update in a fixed binary tree, ((0+1)+(2+3))+..., whichever machine
// computes them and in whichever order they arrive. Two neighbors are added as soon as both are there. Shards that
// arrive in order need memory for SumsOf(shards) gradients.
type shardSum struct {
	opt     *optim.AdamW
	free    []*autograd.Gradients // all zeros
	mu      sync.Mutex            // guards waiting, as values is called concurrently
	waiting map[cluster.Node]*autograd.Gradients
	shards  int                 // of this update
	added   *autograd.Gradients // gradients whose siblings were already added, leaf by leaf
}

func newShardSum(opt *optim.AdamW) *shardSum {
	return &shardSum{opt: opt, waiting: map[cluster.Node]*autograd.Gradients{}}
}

// SumsOf returns how many gradients exist at once while so many shards are added in order: one for each bit of their
// number.
func SumsOf(shards int) int { return bits.Len(uint(max(0, shards))) }

// begin starts the sum of the given number of shards.
func (s *shardSum) begin(shards int) {
	s.shards, s.added = shards, nil
	clear(s.waiting) // some are left if an update failed
}

// take returns zeroed gradients for one shard.
func (s *shardSum) take() *autograd.Gradients {
	n := len(s.free)
	if n == 0 {
		return autograd.NewGradients(s.opt.Backend(), s.opt.Tensors()...)
	}
	g := s.free[n-1]
	s.free = s.free[:n-1]
	return g
}

// put adds the gradient of a shard, which came from take. It returns the sum once all shards are added, and nil before.
// The caller must zero the sum and return it with giveBack.
func (s *shardSum) put(shard int, g *autograd.Gradients) *autograd.Gradients {
	node, siblings := s.climb(shard)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range siblings {
		other := s.waiting[n]
		delete(s.waiting, n)
		if s.added != g {
			s.opt.Add(g.Each(), other.Each())
		}
		s.giveBack(other)
	}
	g.Final, s.added = nil, nil
	if node.Width >= s.shards {
		return g
	}
	s.waiting[node] = g
	return nil
}

// climb returns the node that a shard completes, and the waiting siblings on the path to it.
func (s *shardSum) climb(shard int) (node cluster.Node, siblings []cluster.Node) {
	for node = (cluster.Node{Width: 1, At: shard}); node.Width < s.shards; node = node.Parent() {
		sibling := cluster.Node{Width: node.Width, At: node.At ^ 1}
		if sibling.At*node.Width >= s.shards { // there is no sibling
			continue
		}
		if _, there := s.waiting[sibling]; !there {
			break
		}
		siblings = append(siblings, sibling)
	}
	return node, siblings
}

// watch makes the gradient of a shard, which came from take, the node that the shard completes, while its only backward
// pass runs. As soon as a leaf is final, the waiting siblings are added to it, and ready is called with the range of
// the node's numbers that are final.
func (s *shardSum) watch(shard int, g *autograd.Gradients, ready func(lo, hi int)) {
	node, siblings := s.climb(shard)
	s.mu.Lock()
	defer s.mu.Unlock()
	var others [][]*tensor.Tensor
	for _, n := range siblings {
		others = append(others, s.waiting[n].Each())
	}
	ends := make([]int, 0, len(g.Each())) // end of each leaf among all numbers
	at := 0
	for _, x := range g.Each() {
		at += x.Len()
		ends = append(ends, at)
	}
	s.waiting[node] = g
	g.Final = func(leaf int) {
		s.added = g
		x := g.Each()[leaf : leaf+1]
		for _, o := range others {
			s.opt.Add(x, o[leaf:leaf+1])
		}
		ready(ends[leaf]-x[0].Len(), ends[leaf])
	}
}

// drop zeroes all waiting gradients and makes them free again.
func (s *shardSum) drop() {
	for node, part := range s.waiting {
		delete(s.waiting, node)
		part.Zero()
		s.giveBack(part)
	}
}

// values copies elements of a waiting node to dst, starting at index at.
func (s *shardSum) values(n cluster.Node, at int, dst []float32) {
	s.mu.Lock()
	g := s.waiting[n]
	s.mu.Unlock()
	for _, x := range g.Each() {
		if at >= x.Len() {
			at -= x.Len()
			continue
		}
		n := min(len(dst), x.Len()-at)
		x.CopyPartTo(dst[:n], at)
		dst = dst[n:]
		at = 0
		if len(dst) == 0 {
			return
		}
	}
}

// giveBack makes zeroed gradients free again.
func (s *shardSum) giveBack(g *autograd.Gradients) { s.free = append(s.free, g) }
