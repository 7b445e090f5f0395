package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// hardWeights returns rows of weights with many different exponents, few, extreme ones, or none.
func hardWeights(rng *rand.Rand, n int) []float32 {
	w := make([]float32, n)
	kind := 0
	for i := range w {
		if i%64 == 0 { // often more than one kind in a block, sometimes the same for several
			kind = rng.IntN(9)
		}
		v := rng.NormFloat64()
		switch kind {
		case 0: // the whole range
			w[i] = math.Float32frombits(rng.Uint32())
		case 1: // sometimes an exact zero of either sign
			w[i] = float32(v) * float32(rng.IntN(5)-2)
		case 2: // denormal
			w[i] = float32(v * 1e-40)
		case 3: // the largest
			w[i] = float32(max(-1, min(v, 1))) * math.MaxFloat32
		case 4:
			w[i] = []float32{nan, inf, -inf, 1}[rng.IntN(4)]
		case 5:
			w[i] = float32(math.Copysign(0, v))
		default:
			w[i] = float32(v * 0.02)
		}
	}
	return w
}

// TestShortFormLosesNothing checks that every weight is recovered with its bits, and that products have the bits of the
// definition, or of Gemm where nothing is rounded, at every level, whichever level packed the weights. If the machine
// or the forced level lacks the instructions for the short form, no matrix may use it.
func TestShortFormLosesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	kept := map[bool]int{}
	for range 100 {
		n, k := 1+rng.IntN(150), 16*(1+rng.IntN(60))
		c := newPackedCase(rng, 1+rng.IntN(19), n, k)
		if rng.IntN(2) == 0 {
			c.w = hardWeights(rng, n*k)
		}
		for _, form := range []struct {
			w       *Packed
			bits    func(float32) uint32
			product func(w []float32) []float32
		}{{c.pack(BF16), termBits, c.byLevel}, {c.packExact(), bf16Bits, c.gemm}} {
			kept[form.w.short != nil]++
			rounded := c.rounded(form.w)
			for i, v := range c.w {
				want := form.bits(v)
				if got := math.Float32bits(rounded[i]); got != want {
					t.Fatalf("exact %v, %dx%d, element %d: %#x became %#x", form.w.exact, n, k, i, want, got)
				}
			}
			atLevels(t, func(t *testing.T) { c.wantBits(t, "short", c.mul(form.w), form.product(rounded)) })
		}
	}
	if !canShorten() {
		if kept[true] > 0 {
			t.Errorf("%d matrices have the short form, which cannot be read here", kept[true])
		}
		return
	}
	if kept[true] < 100 || kept[false] < 10 {
		t.Errorf("%d matrices have the short form and %d not, want many of both", kept[true], kept[false])
	}
}

// TestShortFormSaves checks that next to no normal weights are stored without shortening. A matrix that would not
// become smaller must not use the short form, nor any matrix where it cannot be read.
func TestShortFormSaves(t *testing.T) {
	bf16 := 1.0
	if canShorten() {
		bf16 = 12. / 16
	}
	rng := rand.New(rand.NewPCG(7, 7))
	normal, wild := make([]float32, 480*768), make([]float32, 480*768)
	for i := range normal {
		normal[i], wild[i] = float32(0.02*rng.NormFloat64()), math.Float32frombits(rng.Uint32())
	}
	for p, share := range map[Precision]float64{BF16: bf16} {
		ws := Pack(p, InMemory(normal, 480, 768), InMemory(wild, 480, 768))
		plain := float64(4 * ws[0].words())
		if got := float64(ws[0].Bytes()) / plain; got < share || got > share+0.02 {
			t.Errorf("%v: %.4f of the memory, want little more than %.4f", p, got, share)
		}
		if float64(ws[1].Bytes()) != plain {
			t.Errorf("%v: any bits take %d bytes, want %v", p, ws[1].Bytes(), plain)
		}
	}
}
