package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// nearestBF16 defines RoundBF16 for numbers: it returns the nearer of the two bfloat16 next to x.
func nearestBF16(x float32) float32 {
	bits := math.Float32bits(x)
	down, up := bits&^0xffff, bits&^0xffff+0x10000
	value := func(bits uint32) float64 {
		if bits&0x7fffffff == 0x7f800000 { // beyond the largest: the value of the next one
			return math.Copysign(0x1p128, float64(x))
		}
		return float64(math.Float32frombits(bits))
	}
	below, above := math.Abs(float64(x)-value(down)), math.Abs(value(up)-float64(x))
	if below < above || below == above && down&0x10000 == 0 {
		return math.Float32frombits(down)
	}
	return math.Float32frombits(up)
}

func TestRoundBF16(t *testing.T) { atLevels(t, testRoundBF16) }

func testRoundBF16(t *testing.T) {
	var x []float32
	everyFloat(math.MaxFloat32, func(v float32) { x = append(x, v) })
	for high := uint32(0); high < 0x7f80; high += 7 { // ties, and numbers next to them
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			v := math.Float32frombits(high<<16 | low)
			x = append(x, v, -v)
		}
	}
	y := make([]float32, len(x))
	RoundBF16(y, x)
	for i, v := range x {
		if got, want := math.Float32bits(y[i]), math.Float32bits(nearestBF16(v)); got != want {
			t.Fatalf("RoundBF16(%v) = %08x, want %08x", v, got, want)
		}
	}
	x = []float32{inf, -inf}
	for _, bits := range []uint32{0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff} {
		x = append(x, math.Float32frombits(bits))
	}
	RoundBF16(x, x)
	if x[0] != inf || x[1] != -inf || slices.ContainsFunc(x[2:], func(v float32) bool { return !isNaN(v) }) {
		t.Errorf("of +Inf, -Inf and NaN it made %v", x)
	}
}

// roundedOperands returns the float32 product with the operands of p rounded.
func (p Product) roundedOperands() Product {
	p.bf16 = false
	p.A, p.B = slices.Clone(p.A), slices.Clone(p.B)
	RoundBF16(p.A, p.A)
	RoundBF16(p.B, p.B)
	return p
}

// TestGemmBF16MatchesDefinition compares the result with the product of the rounded operands: to the last bit with
// Gemm's where Gemm computes it, otherwise with the definition.
func TestGemmBF16MatchesDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	defer func(old level) { cpu = old }(cpu)
	for _, op := range []Op{NN, NT, TN} {
		for _, s := range [][3]int{{1, 1, 1}, {3, 5, 2}, {9, 50, 261}, {4, 800, 769}, {400, 20, 1600}, {200, 49, 33}} {
			p := randomProduct(rng, op, s[0], s[1], s[2])
			p.bf16 = true
			q := p.roundedOperands()
			want, size := q.definition()
			for _, cpu = range machineLevels() {
				got := p.result()
				if !cpu.has(avx512bf16) {
					if !slices.Equal(got, q.result()) {
						t.Errorf("%v: %s %v: not what Gemm makes of rounded operands", cpu, opNames[op], s)
					}
					continue
				}
				for at, v := range want {
					i, j := at/p.N, at%p.N
					if g := float64(got[i*p.LDC+j]); math.Abs(g-v) > 1e-6*size[at] {
						t.Fatalf("%v: %s %v: C[%d,%d] = %v, want %v", cpu, opNames[op], s, i, j, g, v)
					}
				}
			}
		}
	}
}

// TestGemmBF16OfDenormals checks that denormal operands count as zero where the processor multiplies bfloat16.
func TestGemmBF16OfDenormals(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		a, b, c := []float32{0x1p-127}, []float32{0x1p127}, []float32{nan}
		GemmBF16(Product{Op: NN, M: 1, N: 1, K: 1, A: a, LDA: 1, B: b, LDB: 1, C: c, LDC: 1})
		want := float32(1)
		if cpu.has(avx512bf16) {
			want = 0
		}
		if c[0] != want {
			t.Errorf("2^-127·2^127 = %v, want %v", c[0], want)
		}
	})
}
