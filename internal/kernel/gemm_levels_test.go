package kernel

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// Lengths around every border of the kernels: tiles, groups, vectors, squares, blocks.
var (
	someM = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 17, 24, 25, 49, 97}
	someN = []int{1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65,
		80, 95, 96, 97, 383, 384, 385}
	someK = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 23, 24, 25, 31, 32, 33, 63,
		64, 65, 383, 384, 385, 400, 769}
)

// integers returns a product of small integers, for which every order of summation gives the same bits. The operands
// begin at any float, and the memory around them and between their rows is NaN.
func integers(rng *rand.Rand, op Op, m, n, k int) Product {
	p := Product{Op: op, M: m, N: n, K: k, Add: rng.IntN(2) == 1}
	matrix := func(rows, cols int) ([]float32, int) {
		ld := cols + rng.IntN(20)
		if rng.IntN(4) == 0 {
			ld = cols
		}
		x := make([]float32, 40+rows*ld)
		for i := range x {
			x[i] = nan
		}
		x = x[rng.IntN(20):]
		for i := range rows {
			for j := range cols {
				x[i*ld+j] = float32(rng.IntN(17) - 8)
			}
		}
		return x, ld
	}
	switch op {
	case NN:
		p.A, p.LDA = matrix(m, k)
		p.B, p.LDB = matrix(k, n)
	case NT:
		p.A, p.LDA = matrix(m, k)
		p.B, p.LDB = matrix(n, k)
	case TN:
		p.A, p.LDA = matrix(k, m)
		p.B, p.LDB = matrix(k, n)
	}
	p.C, p.LDC = matrix(m, n)
	if rng.IntN(2) == 1 {
		p.Bias, _ = matrix(1, n)
	}
	return p
}

// check fails if, at any level, the result of Gemm or GemmBF16 differs from the definition, or anything around C
// changes. It leaves C unchanged.
func (p Product) check(t *testing.T) {
	t.Helper()
	want := slices.Clone(p.C)
	value, _ := p.definition()
	for i, v := range value {
		want[i/p.N*p.LDC+i%p.N] = float32(v)
	}
	defer func(old level) { cpu = old }(cpu)
	for _, cpu = range machineLevels() {
		for _, p.bf16 = range []bool{false, true} {
			got := slices.Clone(p.C)
			p.into(got)
			for i, v := range got {
				if v != want[i] && !(isNaN(v) && isNaN(want[i])) {
					t.Fatalf(
						"%v: %s %dx%dx%d, bf16=%v, rows %d, %d and %d apart, add=%v bias=%v: C[%d,%d] = %v, want %v",
						cpu, opNames[p.Op],
						p.M, p.N, p.K, p.bf16, p.LDA, p.LDB, p.LDC, p.Add, p.Bias != nil, i/p.LDC, i%p.LDC, v, want[i])
				}
			}
		}
	}
}

// TestGemmOfEveryLength checks every length, combined with random others.
func TestGemmOfEveryLength(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	one := func(of []int) int { return of[rng.IntN(len(of))] }
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	for _, op := range []Op{NN, NT, TN} {
		for range rounds {
			for _, m := range someM {
				integers(rng, op, m, one(someN), one(someK)).check(t)
			}
			for _, n := range someN {
				integers(rng, op, one(someM), n, one(someK)).check(t)
			}
			for _, k := range someK {
				integers(rng, op, one(someM), one(someN), k).check(t)
			}
		}
	}
}

// TestGemmLarge covers the code that only large products use: copies of B and Aᵀ, several blocks and chunks, tiles on
// all cores.
func TestGemmLarge(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	rng := rand.New(rand.NewPCG(2, 2))
	for _, op := range []Op{NN, NT, TN} {
		for _, s := range [][3]int{{100, 430, 390}, {390, 60, 400}, {1, 1100, 800}, {7, 1031, 400},
			{7, 1590, 770}, {195, 50, 770}} {
			integers(rng, op, s[0], s[1], s[2]).check(t)
		}
	}
}

// TestGemmPassesOnSpecials checks that an infinity or a NaN affects the elements it is a factor of, and no others.
func TestGemmPassesOnSpecials(t *testing.T) {
	specials := []float32{inf, -inf, nan}
	rng := rand.New(rand.NewPCG(3, 3))
	for _, op := range []Op{NN, NT, TN} {
		for range 200 {
			m, n, k := 1+rng.IntN(20), 1+rng.IntN(70), 1+rng.IntN(40)
			p := integers(rng, op, m, n, k)
			i, j, q := rng.IntN(m), rng.IntN(n), rng.IntN(k)
			at := i*p.LDA + q
			if op == TN {
				at = q*p.LDA + i
			}
			p.A[at] = specials[rng.IntN(3)]
			at = rng.IntN(k)*p.LDB + j
			if op == NT {
				at = j*p.LDB + rng.IntN(k)
			}
			p.B[at] = specials[rng.IntN(3)]
			p.check(t)
		}
	}
}

// TestGemmKeepsSigns checks that sums begin with +0, and that tails add no terms.
func TestGemmKeepsSigns(t *testing.T) {
	minusZero := float32(math.Copysign(0, -1))
	atLevels(t, func(t *testing.T) {
		for _, op := range []Op{NN, NT, TN} {
			for k := 1; k < 40; k++ {
				const m, n = 3, 20
				p := Product{Op: op, M: m, N: n, K: k, LDA: k, LDB: n, LDC: n, A: make([]float32, m*k),
					B: make([]float32, n*k), C: make([]float32, m*n)}
				switch op {
				case NT:
					p.LDB = k
				case TN:
					p.LDA = m
				}
				for i := range p.A {
					p.A[i] = minusZero
				}
				for i := range p.B {
					p.B[i] = 1
				}
				for _, p.bf16 = range []bool{false, true} {
					for i, v := range p.result() {
						if math.Float32bits(v) != 0 {
							t.Fatalf("%s, bf16=%v, %d terms -0·1: C[%d] = %v, want +0", opNames[op], p.bf16, k, i, v)
						}
					}
				}
			}
		}
	})
}
