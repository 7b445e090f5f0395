package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// halvesOfFloats returns bfloat16 numbers as bytes, which begin at an odd address in half of the cases.
func halvesOfFloats(rng *rand.Rand, x []float32) []byte {
	at := rng.IntN(2)
	b := make([]byte, at, at+2*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint16(b, uint16(bf16Bits(v)>>16))
	}
	return b[at:]
}

// TestHalvesArePackedAlike checks, at every level, that a matrix given as bfloat16 numbers is packed into the same bits
// as one of float32, and that every number is recovered: with exponents close together and far apart, tiny numbers and
// zeros, and partial panels.
func TestHalvesArePackedAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	atLevels(t, func(t *testing.T) {
		for _, shape := range [][2]int{
			{1, 16}, {48, 128}, {50, 144}, {200, 256}, {96, 24}, {57, 33}, {49, 34}, {8, 400},
		} {
			for _, spread := range []float64{0.1, 3, 40} {
				n, k := shape[0], shape[1]
				x := make([]float32, n*k)
				for i := range x {
					v := float32(rng.NormFloat64() * math.Exp(spread*rng.NormFloat64()))
					if spread == 3 && rng.IntN(200) == 0 {
						v = 0
					}
					x[i] = math.Float32frombits(bf16Bits(v))
				}
				halves := halvesOfFloats(rng, x)
				want := InMemory(x, n, k)
				got := want
				got.BF16 = func(j, n int, use func([]byte)) { use(halves[2*j*k:][:2*n*k]) }
				for _, exact := range []bool{true, false} {
					a, b := pack(BF16, exact, []Matrix{want})[0], pack(BF16, exact, []Matrix{got})[0]
					if !slices.Equal(a.short, b.short) || !slices.Equal(a.heads, b.heads) ||
						!slices.Equal(a.bf16, b.bf16) {
						t.Errorf("%v, spread %v, exact %v: other bits", shape, spread, exact)
					}
					rows := make([]float32, n*k)
					b.Rows(rows, 0, n)
					for i, v := range x {
						if !exact {
							v = math.Float32frombits(termBits(v))
						}
						if math.Float32bits(rows[i]) != math.Float32bits(v) {
							t.Fatalf("%v, spread %v, exact %v: element %d is %v, want %v", shape, spread, exact, i,
								rows[i], v)
						}
					}
				}
			}
		}
	})
}
