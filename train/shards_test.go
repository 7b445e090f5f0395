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

// TestTreeOfShards: sums are those of a tree over the shards' places, which takes as much memory as it has levels.
func TestTreeOfShards(t *testing.T) {
	x := tensor.New(3)
	s := newShardSum(optim.NewAdamW(cpu.Backend{}, []optim.Param{{Name: "x", Tensor: x}}, 0.9, 0.99, 1e-8, 1))
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 3, 5, 7, 8, 13, 256} {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(math.Exp(20 * rng.NormFloat64())) // so that the order of additions shows
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
				g.Each()[0].Elements()[1] = values[i]
				sum = s.put(i, g)
			}
			if sum == nil || Elements(sum)[0][1] != tree(0, n) || len(s.waiting) > 0 {
				t.Fatalf("%d shards in the order %v: found %v, want %v", n, order, sum, tree(0, n))
			}
			if order == nil && len(lent) != SumsOf(n) {
				t.Errorf("%d shards take %d gradients, want %d", n, len(lent), SumsOf(n))
			}
			for _, g := range s.free {
				if slices.ContainsFunc(Elements(g)[0], func(v float32) bool { return v != 0 }) {
					t.Errorf("%d shards: gradients %v were given back, want zeros", n, Elements(g))
				}
			}
		}
	}
}
