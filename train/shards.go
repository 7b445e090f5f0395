package train

import (
	"math/bits"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// shardSum adds the gradients of the shards of an update in a fixed binary tree, ((0+1)+(2+3))+..., whoever computes
// them and in whichever order they come: two neighbors are added as soon as both are there. Shards that come in order
// take memory for sumsOf(shards) gradients.
type shardSum struct {
	opt     *optim.AdamW
	free    []*autograd.Gradients // all zeros
	mu      sync.Mutex            // of waiting: values is called beside all else
	waiting map[cluster.Node]*autograd.Gradients
	shards  int                 // of this update
	added   *autograd.Gradients // whose siblings have been added, leaf by leaf
}

func newShardSum(opt *optim.AdamW) *shardSum {
	return &shardSum{opt: opt, waiting: map[cluster.Node]*autograd.Gradients{}}
}

// SumsOf is how many gradients there are at once in the sum of so many shards that come in order: one for each bit of
// their number.
func SumsOf(shards int) int { return bits.Len(uint(max(0, shards))) }

// begin begins the sum of so many shards.
func (s *shardSum) begin(shards int) {
	s.shards, s.added = shards, nil
	clear(s.waiting) // some are left if an update failed
}

// take lends zeroed gradients for one shard.
func (s *shardSum) take() *autograd.Gradients {
	n := len(s.free)
	if n == 0 {
		return autograd.NewGradients(s.opt.Backend(), s.opt.Tensors()...)
	}
	g := s.free[n-1]
	s.free = s.free[:n-1]
	return g
}

// put adds the gradient of a shard, which take has lent. It returns the sum when it is that of all shards, nil before.
// Whoever updates by it zeroes it and gives it back.
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

// climb is the node that a shard completes, and those that wait on its way there.
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

// watch lets the gradient of a shard, which take has lent, be the node that the shard completes while its one backward
// runs: as soon as a leaf is final, what waits is added to it, and ready is told which numbers of the node are final.
func (s *shardSum) watch(shard int, g *autograd.Gradients, ready func(lo, hi int)) {
	node, siblings := s.climb(shard)
	s.mu.Lock()
	defer s.mu.Unlock()
	var others [][]*tensor.Tensor
	for _, n := range siblings {
		others = append(others, s.waiting[n].Each())
	}
	ends := make([]int, 0, len(g.Each())) // of leaves, among all numbers
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

// drop zeroes and takes back what waits.
func (s *shardSum) drop() {
	for node, part := range s.waiting {
		delete(s.waiting, node)
		part.Zero()
		s.giveBack(part)
	}
}

// values copies elements of a node that waits, from place at on.
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

// giveBack takes zeroed gradients back.
func (s *shardSum) giveBack(g *autograd.Gradients) { s.free = append(s.free, g) }
