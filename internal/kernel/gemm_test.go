package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

var opNames = []string{NN: "NN", NT: "NT", TN: "TN"}

// normals returns n seeded normal deviates.
func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// randomProduct returns a product with random operands whose rows are some floats longer than necessary.
func randomProduct(rng *rand.Rand, op Op, m, n, k int) Product {
	p := Product{Op: op, M: m, N: n, K: k, LDA: k, LDB: n}
	rowsA, rowsB := m, k
	switch op {
	case NT:
		p.LDB, rowsB = k, n
	case TN:
		p.LDA, rowsA = m, k
	}
	p.LDA, p.LDB, p.LDC = p.LDA+rng.IntN(4), p.LDB+rng.IntN(4), n+rng.IntN(4)
	p.A = normals(rng, rowsA*p.LDA)
	p.B = normals(rng, rowsB*p.LDB)
	p.C = normals(rng, m*p.LDC)
	if rng.IntN(2) == 1 {
		p.Bias = normals(rng, n)
	}
	p.Add = rng.IntN(2) == 1
	return p
}

// into runs Gemm or GemmBF16 with c as C.
func (p Product) into(c []float32) {
	p.C = c
	if p.bf16 {
		GemmBF16(p)
	} else {
		Gemm(p)
	}
}

// result runs the product on a copy of C that ends with the last float it may write, and returns the copy.
func (p Product) result() []float32 {
	c := slices.Clone(p.C[:(p.M-1)*p.LDC+p.N])
	p.into(c)
	return c
}

// definition returns C in float64 and, for each of its elements, the sum of the magnitudes of its terms. Both are
// without gaps between rows.
func (p Product) definition() (value, size []float64) {
	value, size = make([]float64, p.M*p.N), make([]float64, p.M*p.N)
	aI, aP, bP, bJ := p.LDA, 1, p.LDB, 1 // A[i,p] is a[i·aI + p·aP], B[p,j] is b[p·bP + j·bJ]
	switch p.Op {
	case NT:
		bP, bJ = 1, p.LDB
	case TN:
		aI, aP = 1, p.LDA
	}
	for i := range p.M {
		value, size := value[i*p.N:][:p.N], size[i*p.N:][:p.N]
		add := func(j int, x float64) { value[j], size[j] = value[j]+x, size[j]+math.Abs(x) }
		for t := range p.K {
			x := float64(p.A[i*aI+t*aP])
			for j := range p.N {
				add(j, x*float64(p.B[t*bP+j*bJ]))
			}
		}
		for j := range p.N {
			if p.Bias != nil {
				add(j, float64(p.Bias[j]))
			}
			if p.Add {
				add(j, float64(p.C[i*p.LDC+j]))
			}
		}
	}
	return value, size
}

func TestGemmMatchesDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	defer func(old level) { cpu = old }(cpu)
	for _, op := range []Op{NN, NT, TN} {
		for _, m := range []int{1, 2, 3, 4, 5, 9} {
			for _, n := range []int{1, 2, 3, 5, 64, 257} {
				for _, k := range []int{0, 1, 3, 4, 5, 64, 256, 261, 515} {
					p := randomProduct(rng, op, m, n, k)
					want, size := p.definition()
					for _, cpu = range machineLevels() {
						// Each term and each of at most 384 + blocks additions rounds once; 1e-6 is a twentieth of that
						// worst case.
						for at, got := range p.result() {
							i, j := at/p.LDC, at%p.LDC
							if j >= n {
								if got != p.C[at] {
									t.Fatalf("%v: %s %dx%dx%d: wrote past the end of row %d", cpu,
										opNames[op], m, n, k, i)
								}
								continue
							}
							if math.Abs(float64(got)-want[i*n+j]) > 1e-6*size[i*n+j] {
								t.Fatalf("%v: %s %dx%dx%d add=%v bias=%v: C[%d,%d] = %v, want %v",
									cpu, opNames[op], m, n, k, p.Add, p.Bias != nil, i, j, got, want[i*n+j])
							}
						}
					}
				}
			}
		}
	}
}

// TestGemmRowsAreIndependent checks that a row has the same bits alone, among other rows, and on several cores.
func TestGemmRowsAreIndependent(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		testGemmRowsAreIndependent(t, false)
		testGemmRowsAreIndependent(t, true)
	})
}

func testGemmRowsAreIndependent(t *testing.T, bf16 bool) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, op := range []Op{NN, NT, TN} {
		for _, s := range [][3]int{{7, 5, 9}, {13, 70, 300}, {50, 300, 257}, {100, 64, 64}, {256, 96, 520},
			{390, 55, 400}, {100, 400, 390}} {
			m, n, k := s[0], s[1], s[2]
			t.Run(fmt.Sprintf("bf16=%v/%s/%dx%dx%d", bf16, opNames[op], m, n, k), func(t *testing.T) {
				p := randomProduct(rng, op, m, n, k)
				p.bf16 = bf16
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				whole := p.result()
				for _, procs := range []int{2, 4} {
					runtime.GOMAXPROCS(procs)
					if !slices.Equal(p.result(), whole) {
						t.Errorf("GOMAXPROCS=%d changes the result", procs)
					}
				}
				for i := 0; i < m; {
					rows := min(m-i, 1+rng.IntN(7))
					part := p
					part.M, part.C = rows, p.C[i*p.LDC:]
					if op == TN {
						part.A = p.A[i:]
					} else {
						part.A = p.A[i*p.LDA:]
					}
					if !slices.Equal(part.result(), whole[i*p.LDC:][:(rows-1)*p.LDC+n]) {
						t.Fatalf("rows %d to %d differ when computed alone", i, i+rows)
					}
					i += rows
				}
			})
		}
	}
}

// TestGemmFormsAgree checks that the same matrices stored either way give the same bits.
func TestGemmFormsAgree(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		testGemmFormsAgree(t, Gemm)
		testGemmFormsAgree(t, GemmBF16)
	})
}

func testGemmFormsAgree(t *testing.T, gemm func(Product)) {
	rng := rand.New(rand.NewPCG(5, 6))
	const m, n, k = 19, 263, 531
	a, b := normals(rng, m*k), normals(rng, k*n)
	transposed := func(x []float32, rows, cols int) []float32 {
		y := make([]float32, len(x))
		for i := range rows {
			for j := range cols {
				y[j*rows+i] = x[i*cols+j]
			}
		}
		return y
	}
	want, got := make([]float32, m*n), make([]float32, m*n)
	gemm(Product{Op: NN, M: m, N: n, K: k, A: a, LDA: k, B: b, LDB: n, C: want, LDC: n})
	gemm(Product{Op: NT, M: m, N: n, K: k, A: a, LDA: k, B: transposed(b, k, n), LDB: k, C: got, LDC: n})
	if !slices.Equal(got, want) {
		t.Error("NT differs from NN")
	}
	gemm(Product{Op: TN, M: m, N: n, K: k, A: transposed(a, m, k), LDA: m, B: b, LDB: n, C: got, LDC: n})
	if !slices.Equal(got, want) {
		t.Error("TN differs from NN")
	}
}

func TestGemmSmallProductsDoNotAllocate(t *testing.T) {
	atLevels(t, testGemmSmallProductsDoNotAllocate)
}

func testGemmSmallProductsDoNotAllocate(t *testing.T) {
	x := make([]float32, 64*64)
	bias := make([]float32, 64)
	for _, op := range []Op{NN, NT, TN} {
		y := make([]float32, 64*64)
		p := Product{
			Op: op, M: 64, N: 64, K: 64, A: x, LDA: 64, B: x, LDB: 64, C: y, LDC: 64, Bias: bias, Add: true,
		}
		for name, gemm := range map[string]func(Product){"Gemm": Gemm, "GemmBF16": GemmBF16} {
			if n := testing.AllocsPerRun(10, func() { gemm(p) }); n != 0 {
				t.Errorf("%s %s: %v allocations", name, opNames[op], n)
			}
		}
	}
}

func TestDotAndAxpy(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for n := range 40 {
		x, y := normals(rng, n), normals(rng, n+1)
		want, size := 0.0, 0.0
		for i, v := range x {
			want, size = want+float64(v)*float64(y[i]), size+math.Abs(float64(v*y[i]))
		}
		if got := Dot(x, y); math.Abs(float64(got)-want) > 1e-6*size {
			t.Errorf("Dot of %d = %v, want %v", n, got, want)
		}
		z := slices.Clone(y)
		Axpy(0.5, x, z)
		for i, v := range z {
			want := y[i]
			if i < n {
				want += 0.5 * x[i] // exact product: one rounding either way
			}
			if v != want {
				t.Errorf("Axpy of %d: y[%d] = %v, want %v", n, i, v, want)
			}
		}
	}
}
