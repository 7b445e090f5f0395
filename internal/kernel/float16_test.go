package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFloat16 checks that every finite float16 survives a round trip, and that a number between two is rounded to the
// nearer one, ties to even.
func TestFloat16(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for bits := range uint16(0x7bff) {
		low, high := float64(widen16(bits)), float64(widen16(bits+1))
		if high <= low || narrow16(float32(low)) != bits || narrow16(-float32(low)) != bits|0x8000 {
			t.Fatalf("%#x is %v, which becomes %#x", bits, low, narrow16(float32(low)))
		}
		if math.Abs(float64(widen16(bits|0x8000))+low) != 0 {
			t.Fatalf("%#x is not minus %v", bits|0x8000, low)
		}
		if got := narrow16(float32((low + high) / 2)); got != bits+bits&1 {
			t.Fatalf("half way from %#x to the next: found %#x, want the even one", bits, got)
		}
		x := float32(low + (high-low)*rng.Float64())
		got := float64(widen16(narrow16(x)))
		if math.Abs(got-float64(x)) > (high-low)/2 {
			t.Fatalf("%v becomes %v, between %v and %v", x, got, low, high)
		}
	}
}
