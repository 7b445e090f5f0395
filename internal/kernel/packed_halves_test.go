package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHalvesArePackedAlike: a matrix that is given as bfloat16 numbers is packed into the same bits as one of float32,
// with exponents close together and far apart, tiny numbers and zeros, and panels that are not full.
func TestHalvesArePackedAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, shape := range [][2]int{{1, 16}, {48, 128}, {50, 144}, {200, 256}, {96, 24}} {
		for _, spread := range []float64{0.1, 3, 40} {
			n, k := shape[0], shape[1]
			x, halves := make([]float32, n*k), make([]byte, 0, 2*n*k)
			for i := range x {
				v := float32(rng.NormFloat64() * math.Exp(spread*rng.NormFloat64()))
				if spread == 3 && rng.IntN(200) == 0 {
					v = 0
				}
				x[i] = math.Float32frombits(bf16Bits(v))
				halves = binary.LittleEndian.AppendUint16(halves, uint16(bf16Bits(v)>>16))
			}
			want := InMemory(x, n, k)
			got := want
			got.BF16 = func(j, n int, use func([]byte)) { use(halves[2*j*k:][:2*n*k]) }
			for _, exact := range []bool{true, false} {
				a, b := pack(BF16, exact, []Matrix{want})[0], pack(BF16, exact, []Matrix{got})[0]
				if !slices.Equal(a.short, b.short) || !slices.Equal(a.heads, b.heads) || !slices.Equal(a.bf16, b.bf16) {
					t.Errorf("%v, spread %v, exact %v: other bits", shape, spread, exact)
				}
			}
		}
	}
}
