package cluster

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPacked checks that rounded numbers stay the same when they are rounded again or packed and unpacked, and that
// rounding moves a number by at most half of the distance between two neighbors.
func TestPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		v := make([]float32, rng.IntN(3*packBlock))
		size := math.Ldexp(1, rng.IntN(200)-130)
		for i := range v {
			v[i] = float32(rng.NormFloat64() * size)
		}
		for _, bits := range []int{bf16Bits, int8Bits} {
			r := slices.Clone(v)
			RoundTo(r, bits)
			again := slices.Clone(r)
			RoundTo(again, bits)
			body := pack(r, bits)
			if got := unpack(body, len(r), bits); !slices.Equal(got, r) || !slices.Equal(again, r) {
				t.Fatalf("%d bits: found %v and %v, want %v", bits, got, again, r)
			}
			if len(body) != packed(len(v), bits) {
				t.Fatalf("%d numbers of %d bits take %d bytes, want %d", len(v), bits, len(body), packed(len(v), bits))
			}
			if unpack(append(body, 0), len(r), bits) != nil || len(body) > 0 && unpack(body[1:], len(r), bits) != nil {
				t.Fatal("another number of bytes is read")
			}
			for i, x := range v {
				gap := math.Abs(float64(x)) / 256
				if bits == int8Bits {
					block := v[i/packBlock*packBlock : min((i/packBlock+1)*packBlock, len(v))]
					gap = float64(max(slices.Max(block), -slices.Min(block))) / 63.5 / 2
				}
				if off := math.Abs(float64(r[i]) - float64(x)); off > max(gap, 1.01*math.Ldexp(1, -127)) {
					t.Fatalf("%d bits: %v is rounded to %v", bits, x, r[i])
				}
			}
		}
		r := slices.Clone(v)
		if RoundTo(r, float32Bits); !slices.Equal(r, v) {
			t.Fatalf("32 bits: found %v, want %v", r, v)
		}
	}
}

// TestApart checks that each shard with numbers of few bits is its own node, whoever holds it, and that the sum is that
// of the tree.
func TestApart(t *testing.T) {
	for shards := 1; shards <= 9; shards++ {
		holders, values := make([]ID, shards), make([][]float32, shards)
		for i := range values {
			values[i] = []float32{float32(math.Pow(1.7, float64(i)))}
		}
		nodes, by := held(holders, true)
		if len(nodes) != shards || len(by) != shards || nodes[shards-1] != Leaf(shards-1, shards) {
			t.Errorf("%d shards: found the nodes %v of %v", shards, nodes, by)
		}
		whole, _ := held(holders, false)
		want := addNodes(shards, whole, [][]float32{treeSum(values)})
		if got := addNodes(shards, nodes, values); !slices.Equal(got, want) {
			t.Errorf("%d shards: found the sum %v, want %v", shards, got, want)
		}
	}
}

// treeSum adds neighbors, then their sums, and so on.
func treeSum(values [][]float32) []float32 {
	for len(values) > 1 {
		var next [][]float32
		for i := 0; i < len(values); i += 2 {
			sum := slices.Clone(values[i])
			if i+1 < len(values) {
				sum[0] += values[i+1][0]
			}
			next = append(next, sum)
		}
		values = next
	}
	return values[0]
}
