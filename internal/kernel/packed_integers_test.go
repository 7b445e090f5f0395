package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPackGroups checks that packing integers made by Pack gives the same products, to the last bit, and that the
// integers are recovered.
func TestPackGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	for _, p := range integerForms {
		for _, k := range []int{1, 31, 32, 33, 64, 95, 96, 300} {
			c := newPackedCase(rng, 3, 50, k)
			rounded := c.pack(p)
			again := PackGroups(p, Groups{c.n, c.k, rounded.Groups})[0]
			c.wantBits(t, p.String()+": products", c.mul(again), c.mul(rounded))
			if !slices.Equal(c.rounded(again), c.rounded(rounded)) {
				t.Errorf("%s, %d terms: the elements are others", p, k)
			}
			if got, want := again.Bytes(), rounded.Bytes(); got != want {
				t.Errorf("%s, %d terms: %d bytes, want %d", p, k, got, want)
			}
		}
	}
}

// TestPackGroupsOfAnyIntegers checks that all integers of a precision give the numbers and products of their
// definition, at every factor and scale.
func TestPackGroupsOfAnyIntegers(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 7))
	ranges := map[Precision][2]int{Int8: {-128, 127}, Int4: {-8, 7}, Int4Min: {0, 15}}
	const m, n, k = 4, 37, 80
	for p, r := range ranges {
		var want [n][k]float32
		from := Groups{n, k, func(j int, q []int8, factor, least []uint16) float32 {
			rng := rand.New(rand.NewPCG(uint64(j), 3))
			scale := float32(rng.ExpFloat64())
			for g := range factor {
				factor[g], least[g] = narrow16(float32(rng.NormFloat64())), 0
				if p == Int4Min {
					least[g] = narrow16(float32(rng.NormFloat64()))
				}
			}
			for i := range q {
				q[i] = int8(r[0] + rng.IntN(r[1]-r[0]+1))
				f, l := widen16(factor[i/32])*scale, widen16(least[i/32])*scale
				want[j][i] = float32(float32(q[i])*f) + l
			}
			return scale
		}}
		w := PackGroups(p, from)[0]
		x, y, wide := make([]float32, m*k), make([]float32, m*n), make([]float32, k)
		for i := range x {
			x[i] = float32(rng.IntN(255)-127) / 127
			if i%k%32 == 0 { // so that x is also integers times a factor, which rounding keeps
				x[i] = 1
			}
		}
		w.Mul(m, x, k, y, n, nil)
		for j := range n {
			w.Row(wide, j)
			if !slices.Equal(wide, want[j][:]) {
				t.Fatalf("%s: row %d is %v, want %v", p, j, wide, want[j])
			}
			for i := range m {
				sum, size := 0.0, 0.0
				for l, v := range want[j] {
					term := float64(v) * float64(x[i*k+l])
					sum, size = sum+term, size+max(term, -term)
				}
				if off := float64(y[i*n+j]) - sum; max(off, -off) > 1e-5*size { // float32 sums of few terms
					t.Errorf("%s: y[%d,%d] = %v, want %v", p, i, j, y[i*n+j], sum)
				}
			}
		}
	}
}

// TestProductsOfExtremeIntegers checks that sums of the largest integers, and of any, in 1 to 13 rows have the bits of
// the portable code. Joined rows of the largest integers have the largest possible sums.
func TestProductsOfExtremeIntegers(t *testing.T) {
	defer func(l level) { cpu = l }(cpu)
	rng := rand.New(rand.NewPCG(5, 7))
	const most, n, k = 13, 37, 96
	extremes := []int8{-128, -127, 127}
	w := PackGroups(Int8, Groups{n, k, func(j int, q []int8, factor, least []uint16) float32 {
		rng := rand.New(rand.NewPCG(uint64(j), 3))
		for g := range factor {
			factor[g] = narrow16(float32(rng.NormFloat64()))
		}
		for i := range q {
			switch q[i] = extremes[j%3]; { // a row of each, of any of these, and of any integers
			case j%9 >= 6:
				q[i] = int8(rng.IntN(256))
			case j%9 >= 3:
				q[i] = extremes[rng.IntN(3)]
			}
		}
		return 1
	}})[0]
	x, y, want := make([]float32, most*k), make([]float32, most*n), make([]float32, most*n)
	for m := 1; m <= most; m++ {
		for signs := range 16 { // of any 4 rows of x
			for i := range x {
				x[i] = float32(2*(signs>>(i/k%4)&1) - 1)
				if signs == 0 && i%k >= 64 {
					x[i] = rng.Float32()*2 - 1
				}
			}
			cpu = generic
			w.Mul(m, x, k, want, n, nil)
			for _, l := range machineLevels() {
				cpu = l
				w.Mul(m, x, k, y, n, nil)
				for i, v := range y[:m*n] {
					if math.Float32bits(v) != math.Float32bits(want[i]) {
						t.Fatalf("%v, %d rows, signs %04b: y[%d,%d] = %v, want %v", l, m, signs, i/n, i%n, v, want[i])
					}
				}
			}
		}
	}
}
