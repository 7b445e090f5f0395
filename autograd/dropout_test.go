//go:build todo

package autograd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// keptByDropout is the definition of dropout's mask: element i has a counter of its own, i odd steps from the seed,
// which SplitMix64 (Steele, Lea, Flood 2014) turns into a number that looks random. The element stays where the upper
// half of that is no less than the share p of its range.
func keptByDropout(seed uint64, i int, p float64) bool {
	z := seed + uint64(i)*0xd1342543de82ef95 + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>32) >= math.Floor(p*(1<<32))
}

// TestDropoutMask: the mask is that of its definition over the whole tensor, however it is shared between cores; what
// is kept is scaled so that the mean stays; and backward sees the same mask.
func TestDropoutMask(t *testing.T) {
	const n, p = 3<<14 + 5, 0.2 // some pieces of work, and a bit
	tape := NewTape()
	tape.Record(true)
	tape.Train(rand.New(rand.NewPCG(3, 4)))
	seed := rand.New(rand.NewPCG(3, 4)).Uint64()
	x := filled(2, n)
	y := tape.Dropout(x, p)
	dy := make([]float32, n)
	for i := range dy {
		dy[i] = 1
	}
	dx := make([]float32, n)
	out := append([]float32(nil), y.Data()...)
	tape.BackwardFrom(y, dy)
	tape.Grad(x, dx)
	for i, got := range out {
		want := float32(0)
		if keptByDropout(seed, i, p) {
			want = 1 / (1 - p)
		}
		if got != 2*want || dx[i] != want {
			t.Fatalf("element %d: value %v, gradient %v, want %v, %v", i, got, dx[i], 2*want, want)
		}
	}
	if tape.Dropout(x, 0) != x {
		t.Error("dropout of nothing makes another tensor")
	}
	if tape.Train(nil); tape.Dropout(x, p) != x {
		t.Error("dropout outside training makes another tensor")
	}
}
