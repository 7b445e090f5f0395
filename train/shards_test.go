package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestTreeOfShards checks that sums are those of a tree over the shards' indices, that they need memory for one
// gradient per level, and that the same holds if a shard is added leaf by leaf. The latter keeps the sign of zeros, and
// final numbers are available at once.
func TestTreeOfShards(t *testing.T) {
	params := []optim.Param{{Name: "zero", Tensor: tensor.New(2)}, {Name: "x", Tensor: tensor.New(3)}}
	s := newShardSum(optim.NewAdamW(cpu.Backend{}, params, 0.9, 0.99, 1e-8, 1))
	zero := float32(math.Copysign(0, -1))
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 3, 5, 7, 8, 13, 256} {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(math.Exp(20 * rng.NormFloat64())) // makes the order of additions visible in the bits
		}
		var tree func(lo, hi int) float32
		tree = func(lo, hi int) float32 {
			if hi-lo == 1 {
				return values[lo]
			}
			half := 1
			for 2*half < hi-lo {
				half *= 2
			}
			return tree(lo, lo+half) + tree(lo+half, hi)
		}
		for _, order := range [][]int{nil, rng.Perm(n), rng.Perm(n)} {
			s.free = nil
			s.begin(n)
			lent := map[*autograd.Gradients]bool{}
			var sum *autograd.Gradients
			for i := range n {
				if order != nil {
					i = order[i]
				}
				g := s.take()
				lent[g] = true
				node, _ := s.climb(i)
				if node.Width < n && rng.IntN(2) == 0 {
					s.watch(i, g, func(lo, hi int) {
						got := make([]float32, hi-lo)
						s.values(node, lo, got)
						if from, to := node.Width*node.At, min(n, node.Width*(node.At+1)); lo == 2 && (hi != 5 ||
							got[1] != tree(from, to)) {
							t.Errorf("%d shards: found %v final from %d to %d, want %v", n, got, lo, hi, tree(from, to))
						}
					})
				}
				g.Each()[0].Elements()[0], g.Each()[1].Elements()[1] = zero, values[i]
				if g.Final != nil {
					g.Final(1)
					g.Final(0)
				}
				sum = s.put(i, g)
			}
			if sum == nil || Elements(sum)[1][1] != tree(0, n) || len(s.waiting) > 0 ||
				!math.Signbit(float64(Elements(sum)[0][0])) {
				t.Fatalf("%d shards in the order %v: found %v, want %v", n, order, sum, tree(0, n))
			}
			if order == nil && len(lent) != SumsOf(n) {
				t.Errorf("%d shards take %d gradients, want %d", n, len(lent), SumsOf(n))
			}
			for _, g := range s.free {
				if slices.ContainsFunc(Elements(g)[1], func(v float32) bool { return v != 0 }) {
					t.Errorf("%d shards: gradients %v were given back, want zeros", n, Elements(g))
				}
			}
		}
	}
}
