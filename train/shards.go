package train

import (
	"math/bits"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/optim"
)

// shardSum adds the gradients of the shards of an update in a fixed binary tree, ((0+1)+(2+3))+..., whoever computes
// them and in whichever order they come: two neighbors are added as soon as both are there. Shards that come in order
// take memory for sumsOf(shards) gradients.
type shardSum struct {
	opt     *optim.AdamW
	free    []*autograd.Gradients // all zeros
	waiting map[cluster.Node]*autograd.Gradients
	shards  int // of this update
}

func newShardSum(opt *optim.AdamW) *shardSum {
	return &shardSum{opt: opt, waiting: map[cluster.Node]*autograd.Gradients{}}
}

// SumsOf is how many gradients there are at once in the sum of so many shards that come in order: one for each bit of
// their number.
func SumsOf(shards int) int { return bits.Len(uint(max(0, shards))) }

// start starts the sum of so many shards.
func (s *shardSum) begin(shards int) {
	s.shards = shards
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
	for node := (cluster.Node{Width: 1, At: shard}); node.Width < s.shards; node = node.Parent() {
		sibling := cluster.Node{Width: node.Width, At: node.At ^ 1}
		if sibling.At*node.Width >= s.shards { // there is no sibling
			continue
		}
		other, there := s.waiting[sibling]
		if !there {
			s.waiting[node] = g
			return nil
		}
		delete(s.waiting, sibling)
		s.opt.Add(g.Each(), other.Each())
		s.giveBack(other)
	}
	return g
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
	for _, x := range s.waiting[n].Each() {
		if at >= x.Len() {
			at -= x.Len()
			continue
		}
		dst = dst[copy(dst, x.Elements()[at:]):]
		at = 0
		if len(dst) == 0 {
			return
		}
	}
}

// giveBack takes zeroed gradients back.
func (s *shardSum) giveBack(g *autograd.Gradients) { s.free = append(s.free, g) }
