package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAddProduct checks the sums against their definition, which rounds once.
func TestAddProduct(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(v)) }
	for range 20000 {
		size := rng.IntN(100) - 50
		number := func(size int) float32 { return float32(math.Ldexp(rng.NormFloat64(), size)) }
		x, w, sum := term(number(size)), term(number(-size)), number(rng.IntN(70)-35)
		if rng.IntN(4) == 0 { // between two numbers, or next to it
			sum = x * w * (1 << 24)
		}
		y := exact(0)
		want, _ := y.Add(y.Mul(exact(x), exact(w)), exact(sum)).Float32()
		if got := addProduct(sum, x, w); got != want {
			t.Fatalf("%v + %v·%v = %v, want %v", sum, x, w, got, want)
		}
	}
}

// term returns an operand by its definition.
func term(x float32) float32 {
	if y := nearestOrSpecial(x); !(math.Abs(float64(y)) < 0x1p-56) {
		return y
	}
	return 0
}

// nearestOrSpecial does the same as nearestBF16, but also accepts NaN and infinities.
func nearestOrSpecial(x float32) float32 {
	if math.IsInf(float64(x), 0) || isNaN(x) {
		return x
	}
	return nearestBF16(x)
}

// inPairs returns a BF16 product by its definition, one term after the other.
func (c *packedCase) inPairs(w []float32) []float32 {
	y := slices.Clone(c.y)
	for i := range c.m {
		row := make([]float32, c.k)
		for p, v := range c.x[i*c.ldx:][:c.k] {
			row[p] = term(v)
		}
		for j := range c.n {
			for k := 0; k < c.k; k += pairTerms {
				sum := float32(0)
				for p := k; p < min(c.k, k+pairTerms); p++ {
					sum = addProduct(sum, row[p], w[j*c.k+p])
				}
				switch at := &y[i*c.ldy+j]; {
				case k > 0:
					*at += sum
				case c.bias != nil:
					*at = sum + c.bias[j]
				default:
					*at = sum
				}
			}
		}
	}
	return y
}

// inTiles returns the product as tiles compute it: of every 32 terms, first the even ones in order, then the odd ones.
func (c *packedCase) inTiles(w []float32) []float32 {
	y := slices.Clone(c.y)
	for i := range c.m {
		x := c.x[i*c.ldx:]
		for j := range c.n {
			sum := float32(0)
			if c.bias != nil {
				sum = c.bias[j]
			}
			for k := 0; k < c.k; k += 32 {
				var of [2]float32
				for p := k; p < min(c.k, k+32); p++ {
					of[p%2] = addProduct(of[p%2], term(x[p]), w[j*c.k+p])
				}
				sum += of[0] + of[1]
			}
			y[i*c.ldy+j] = sum
		}
	}
	return y
}

// byLevel returns inPairs, or inTiles if the level has tiles.
func (c *packedCase) byLevel(w []float32) []float32 {
	if cpu.has(gemmTilesCode) {
		return c.inTiles(w)
	}
	return c.inPairs(w)
}

// TestPackedBF16IsItsDefinition checks that every level gives the bits of the definition. The operands include some of
// any size, whose sums cancel and whose products would be denormal if the smallest operands were not set to zero.
func TestPackedBF16IsItsDefinition(t *testing.T) {
	var cases []packedCase
	rng := rand.New(rand.NewPCG(1, 1))
	packedSizes(rng, func(c packedCase) {
		if rng.IntN(2) == 0 {
			low := -rng.IntN(140)
			for _, x := range [][]float32{c.w, c.x} {
				for i, v := range x {
					x[i] = float32(math.Ldexp(float64(v), low+rng.IntN(20)))
				}
			}
		}
		cases = append(cases, c)
	})
	for _, c := range cases {
		w := make([]float32, len(c.w))
		for i, v := range c.w {
			w[i] = term(v)
		}
		want := map[bool][]float32{false: c.inPairs(w), true: c.inTiles(w)}
		atLevels(t, func(t *testing.T) {
			packed := c.pack(BF16)
			for i, v := range c.rounded(packed) {
				if math.Float32bits(v) != math.Float32bits(w[i]) {
					t.Fatalf("weight %d, %v, became %v, want %v", i, c.w[i], v, w[i])
				}
			}
			for _, pay := range []bool{true, false} {
				pairsPay = func() bool { return pay }
				c.wantBits(t, "bfloat16", c.mul(packed), want[cpu.has(gemmTilesCode)])
			}
		})
	}
}

// TestBF16NeedsNoDenormals checks that the smallest products, and their remainder in a sum, are normal numbers at every
// level.
func TestBF16NeedsNoDenormals(t *testing.T) {
	const least, more = 0x1p-56, 1 + 1./128
	x := []float32{least, least * more, least * (1 - 1./128), 1}
	w := []float32{-least * (1 + 2./128), least * more, 1, least / 2}
	atLevels(t, func(t *testing.T) {
		y := make([]float32, 1)
		Pack(BF16, InMemory(w, 1, 4))[0].Mul(1, x, 4, y, 1, nil)
		if want := float32(0x1p-126); y[0] != want {
			t.Errorf("%v: %v, want %v", cpu, y[0], want)
		}
	})
}
