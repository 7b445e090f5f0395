package kernel

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestInt4RoundsAlike checks that every level packs the same integers and factors, for rows of any length, with zeros,
// with numbers halfway between two integers, and with hard ones.
func TestInt4RoundsAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, k := range []int{1, 31, 32, 33, 512, 544, 770} {
		w := make([]float32, 20*k)
		for i := range w {
			switch i / k % 4 {
			case 0:
				w[i] = float32(rng.IntN(17)-8) / 2
			case 1:
				w[i] = float32(rng.NormFloat64() * 1e-42)
			case 2:
				w[i] = float32(rng.NormFloat64()*0.02) * float32(i/groupTerms%2)
			default:
				w[i] = float32(rng.NormFloat64() * 1e37)
			}
		}
		var want []uint8
		atLevels(t, func(t *testing.T) {
			got := Pack(Int4, InMemory(w, 20, k))[0].groups.blocks
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%v: rows of %d terms become other integers than at the level before", cpu, k)
			}
		})
	}
}
