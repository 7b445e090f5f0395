package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestIntegersArePackedAlike checks that every level packs a matrix into the same bytes as the definition, and that
// packing the resulting integers again gives the same bytes. The cases include partial panels and groups, numbers close
// together and far apart, rows of zeros, the largest and the smallest numbers, two of the largest magnitude, and halves
// between two integers.
func TestIntegersArePackedAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	type matrix struct {
		n, k int
		x    []float32
	}
	var matrices []matrix
	for _, shape := range [][2]int{{16, 32}, {48, 96}, {33, 70}, {64, 33}, {17, 1}, {5, 64}, {32, 7}} {
		for kind := range 6 {
			m := matrix{shape[0], shape[1], make([]float32, shape[0]*shape[1])}
			for i := range m.x {
				v := float32(rng.NormFloat64())
				switch kind {
				case 1:
					v *= float32(math.Exp(20 * rng.NormFloat64()))
				case 2:
					v = float32(rng.IntN(33)-16) / 2
				case 3:
					if v *= 1e-40; i/m.k%3 == 0 {
						v = 0
					}
				case 4:
					if v *= 3e37; rng.IntN(40) == 0 {
						v = math.MaxFloat32
					}
				case 5:
					v = [...]float32{1, -1, 0, -0x1p-30, 0x1p-140}[rng.IntN(5)]
				}
				m.x[i] = min(max(v, -math.MaxFloat32), math.MaxFloat32)
			}
			matrices = append(matrices, m)
		}
	}
	want := map[Precision][]*Packed{}
	check := func(t *testing.T) {
		for _, p := range []Precision{Int8, Int4, Int4Min} {
			for i, m := range matrices {
				got := pack(p, false, []Matrix{InMemory(m.x, m.n, m.k)})[0]
				if len(want[p]) == i {
					want[p] = append(want[p], got)
				}
				w := want[p][i]
				again := PackGroups(p, Groups{N: m.n, K: m.k, Row: got.Groups})[0]
				for _, other := range []*Packed{got, again} {
					if !bytes.Equal(other.groups.blocks, w.groups.blocks) ||
						!slices.Equal(other.groups.row, w.groups.row) || !bytes.Equal(other.Sums(), w.Sums()) {
						t.Fatalf("matrix %d (%d, %d) in %v: other bytes", i, m.n, m.k, p)
					}
				}
			}
			one := slices.Clone(matrices[0].x)
			one[len(one)-1]++
			if bytes.Equal(pack(p, false, []Matrix{InMemory(one, 16, 32)})[0].Sums(), want[p][0].Sums()) {
				t.Errorf("%v: the checksums of two matrices are the same", p)
			}
		}
	}
	level := cpu
	cpu = generic // the definition
	check(t)
	cpu = level
	atLevels(t, check)
}
