package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

var precisions = []Precision{Float32, BF16, Int8, Int4, Int4Min}

// integerForms holds the precisions in groups.
var integerForms = precisions[2:]

// packedCase is a product y = x Wᵀ + bias. The memory around the operands is NaN.
type packedCase struct {
	m, n, k, ldx, ldy int
	w, x, y, bias     []float32
}

func newPackedCase(rng *rand.Rand, m, n, k int) packedCase {
	c := packedCase{m: m, n: n, k: k, ldx: k + rng.IntN(5), ldy: n + rng.IntN(5)}
	fill := func(rows, cols, ld int) []float32 {
		x := make([]float32, rows*ld+20)
		for i := range x {
			x[i] = nan
		}
		x = x[rng.IntN(10):]
		for i := range rows * cols {
			x[i/cols*ld+i%cols] = float32(rng.NormFloat64())
		}
		return x
	}
	c.w, c.x, c.y = fill(n, k, k)[:n*k], fill(m, k, c.ldx), fill(m, n, c.ldy)
	if rng.IntN(3) > 0 {
		c.bias = fill(1, n, n)
	}
	return c
}

// pack packs the weights.
func (c *packedCase) pack(p Precision) *Packed { return Pack(p, InMemory(c.w, c.n, c.k))[0] }

// mul returns y after the product, in a fresh slice.
func (c *packedCase) mul(w *Packed) []float32 {
	y := slices.Clone(c.y)
	w.Mul(c.m, c.x, c.ldx, y, c.ldy, c.bias)
	return y
}

// rounded returns W as it is after packing.
func (c *packedCase) rounded(w *Packed) []float32 {
	out := make([]float32, c.n*c.k)
	for j := range c.n {
		w.Row(out[j*c.k:], j)
	}
	return out
}

func (c *packedCase) wantBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(isNaN(got[i]) && isNaN(want[i])) {
			t.Fatalf("%v: %s: %dx%dx%d, rows %d and %d apart, bias %v: y[%d,%d] = %v, want %v", cpu,
				what, c.m, c.n, c.k, c.ldx, c.ldy,
				c.bias != nil, i/c.ldy, i%c.ldy, got[i], want[i])
		}
	}
}

// packedSizes visits every number of rows, of columns in the last panel, and of terms in a word and around the blocks.
func packedSizes(rng *rand.Rand, visit func(c packedCase)) {
	ns := []int{1, 2, 7, 16, 17, 47, 48, 49, 95, 96, 97, 150}
	ks := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 64, 383, 384, 385, 386, 767, 768, 770, 1153, 1154}
	one := func(of []int) int { return of[rng.IntN(len(of))] }
	for m := range 19 {
		visit(newPackedCase(rng, m+1, one(ns), one(ks)))
	}
	for _, n := range ns {
		visit(newPackedCase(rng, 1+rng.IntN(10), n, one(ks)))
	}
	for _, k := range ks {
		visit(newPackedCase(rng, 1, one(ns), k))
		visit(newPackedCase(rng, 1+rng.IntN(10), one(ns), k))
	}
}

// packExact packs the weights, rounded to bfloat16, so that products are those of float32.
func (c *packedCase) packExact() *Packed { return PackExact(InMemory(c.w, c.n, c.k))[0] }

// gemm returns the float32 product with weights w.
func (c *packedCase) gemm(w []float32) []float32 {
	y := slices.Clone(c.y)
	Gemm(Product{
		Op: NT, M: c.m, N: c.n, K: c.k, A: c.x, LDA: c.ldx, B: w, LDB: c.k, C: y, LDC: c.ldy, Bias: c.bias,
	})
	return y
}

// TestPackedFloatIsGemm checks that at Float32, and for weights stored as bfloat16 numbers, the product is that of
// Gemm, and that nothing else is written.
func TestPackedFloatIsGemm(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		packedSizes(rand.New(rand.NewPCG(1, 1)), func(c packedCase) {
			c.wantBits(t, "float32", c.mul(c.pack(Float32)), c.gemm(c.w))
			w := c.packExact()
			c.wantBits(t, "exact", c.mul(w), c.gemm(c.rounded(w)))
		})
	})
}

// TestPackedIntegersAreTheirDefinition checks that every level gives the bits of the definition, which is written here
// with int64 sums and the integers of single rows.
func TestPackedIntegersAreTheirDefinition(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		packedSizes(rand.New(rand.NewPCG(2, 2)), func(c packedCase) {
			for _, p := range integerForms {
				w, want := c.pack(p), slices.Clone(c.y)
				records := make([]record, ceil(c.k, groupTerms))
				var u [groupTerms]uint8
				for i := range c.m {
					quantizeGroups(records, c.x[i*c.ldx:][:c.k], w.form().zero)
					for j := range c.n {
						y := float32(0)
						for g, x := range records {
							factor, least := w.group(j, g, &u)
							sum := int64(0)
							for i, q := range x.q {
								sum += int64(q) * (int64(u[i]) + int64(w.form().zero))
							}
							y = fused(y, float32(sum), x.factor*widen16(factor))
							if p == Int4Min {
								y = fused(y, x.sum, widen16(least))
							}
						}
						y *= w.groups.row[j]
						if c.bias != nil {
							y += c.bias[j]
						}
						want[i*c.ldy+j] = y
					}
				}
				c.wantBits(t, p.String(), c.mul(w), want)
			}
		})
	})
}

// fused returns sum + x·w, rounded once.
func fused(sum, x, w float32) float32 {
	exact := func(v float32) *big.Float { return big.NewFloat(float64(v)).SetPrec(600) }
	p := exact(x)
	y, _ := p.Mul(p, exact(w)).Add(p, exact(sum)).Float32()
	return y
}

// TestPackedIntegersAreProducts checks that the product differs from the float64 product of x with the weights that Row
// returns only by the rounding of x.
func TestPackedIntegersAreProducts(t *testing.T) {
	packedSizes(rand.New(rand.NewPCG(12, 2)), func(c packedCase) {
		for _, p := range integerForms {
			w := c.pack(p)
			weights, got := c.rounded(w), c.mul(w)
			for i := range c.m {
				for j := range c.n {
					want, bound := 0.0, 1e-5
					if c.bias != nil {
						want = float64(c.bias[j])
					}
					for g := 0; g < c.k; g += groupTerms {
						top, sizes := 0.0, 0.0
						for q := g; q < min(g+groupTerms, c.k); q++ {
							x, v := float64(c.x[i*c.ldx+q]), float64(weights[j*c.k+q])
							want, top, sizes = want+x*v, max(top, math.Abs(x)), sizes+math.Abs(v)
						}
						bound += top/254*sizes + 1e-6*top*sizes*float64(c.k)
					}
					if y := float64(got[i*c.ldy+j]); math.Abs(y-want) > bound {
						t.Fatalf("%v, %dx%dx%d: y[%d,%d] = %v, want %v ± %v", p, c.m, c.n, c.k, i, j, y, want, bound)
					}
				}
			}
		}
	})
}

// TestPackedRowsAlone checks that a row of y has the same bits alone and among others.
func TestPackedRowsAlone(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		packedSizes(rand.New(rand.NewPCG(9, 2)), func(c packedCase) {
			for _, p := range precisions {
				w := c.pack(p)
				all := c.mul(w)
				alone := slices.Clone(c.y)
				for i := range c.m {
					w.Mul(1, c.x[i*c.ldx:], c.ldx, alone[i*c.ldy:], c.ldy, c.bias)
				}
				c.wantBits(t, p.String()+" alone", alone, all)
			}
		})
	})
}

// TestPackRounds checks that the stored weights are the nearest that the precision has.
func TestPackRounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 50 {
		c := newPackedCase(rng, 1, 1+rng.IntN(100), 1+rng.IntN(100))
		var kept [len(precisionNames)][]float32
		for _, p := range precisions {
			ws := Pack(p, InMemory(c.w[:c.k], 1, c.k), InMemory(c.w, c.n, c.k)) // the second of two
			if ws[1].Len() != c.n*c.k {
				t.Fatalf("%d elements, want %d", ws[1].Len(), c.n*c.k)
			}
			kept[p] = c.rounded(ws[1])
		}
		for i, v := range c.w {
			at := i/c.k*c.k + i%c.k/groupTerms*groupTerms
			group := c.w[at:min(at+groupTerms, (i/c.k+1)*c.k)]
			top := 0.0
			for _, u := range group {
				top = max(top, math.Abs(float64(u)))
			}
			bf16Err, int8Err := math.Abs(float64(kept[BF16][i]-v)), math.Abs(float64(kept[Int8][i]-v))
			if kept[Float32][i] != v || bf16Err > math.Abs(float64(v))/256 || int8Err > 1.001*top/254 {
				t.Fatalf("element %d of %dx%d, %v, is kept as %v, %v and %v; the largest of its group is %v",
					i, c.n, c.k, v, kept[Float32][i], kept[BF16][i], kept[Int8][i], top)
			}
		}
	}
	row := make([]float32, 3)
	Pack(BF16, InMemory([]float32{1 + 1.0/256, 1 + 3.0/256, -math.MaxFloat32}, 1, 3))[0].Row(row, 0)
	if want := []float32{1, 1 + 4.0/256, -inf}; !slices.Equal(row, want) {
		t.Errorf("between two bfloat16: %v, want the even ones %v", row, want)
	}
}

// TestPackedExtremes checks the largest sums of their length, and that a row of x with a NaN or an infinity affects no
// other.
func TestPackedExtremes(t *testing.T) {
	const n, k = 50, 4096
	w, x := make([]float32, n*k), make([]float32, 3*k)
	for i := range w {
		w[i] = []float32{1, -1}[i/k%2]
	}
	for i := range x {
		x[i] = -1
	}
	atLevels(t, func(t *testing.T) {
		for _, special := range []float32{nan, inf, -inf} {
			x[k+77] = special
			for _, p := range precisions {
				y, tol := make([]float32, 3*n), 1e-2
				if p >= Int8 {
					tol = k * 0x1p-11 // by which 1/127 and 1/8 differ from float16
				}
				Pack(p, InMemory(w, n, k))[0].Mul(3, x, k, y, n, nil)
				for i, v := range y {
					want := []float32{-k, k}[i%n%2]
					if i/n == 1 {
						if !isNaN(v) && (p >= Int8 || !math.IsInf(float64(v), 0)) {
							t.Fatalf("precision %d: y[1,%d] = %v of a row with %v", p, i%n, v, special)
						}
					} else if math.Abs(float64(v-want)) > tol {
						t.Fatalf("precision %d: y[%d,%d] = %v, want %v", p, i/n, i%n, v, want)
					}
				}
			}
		}
	})
}

// TestPackedDoesNotAllocate checks that products on one core do not allocate.
func TestPackedDoesNotAllocate(t *testing.T) {
	c := newPackedCase(rand.New(rand.NewPCG(4, 4)), 3, 1500, 400)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, p := range precisions {
		w := c.pack(p)
		if allocs := testing.AllocsPerRun(10, func() { w.Mul(c.m, c.x, c.ldx, c.y, c.ldy, c.bias) }); allocs != 0 {
			t.Errorf("precision %d: %v allocations", p, allocs)
		}
	}
}

// TestPackedCores checks that the result does not depend on the number of cores.
func TestPackedCores(t *testing.T) {
	c := newPackedCase(rand.New(rand.NewPCG(4, 4)), 3, 1500, 400)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, p := range precisions {
		w := c.pack(p)
		runtime.GOMAXPROCS(1)
		want := c.mul(w)
		runtime.GOMAXPROCS(4)
		if got := c.mul(w); !slices.EqualFunc(got, want,
			func(a, b float32) bool { return a == b || isNaN(a) && isNaN(b) }) {
			t.Errorf("precision %d: 4 cores give another result than one", p)
		}
	}
}

// TestPackedRows checks that reading several rows at once gives the same as reading them one by one, at every precision
// and in the short form.
func TestPackedRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, k := range []int{5, 64, 768} {
		c := newPackedCase(rng, 1, 150, k)
		for _, p := range []Precision{Float32, BF16, Int8} {
			w := c.pack(p)
			want := c.rounded(w)
			for range 20 {
				j := rng.IntN(c.n)
				n := 1 + rng.IntN(c.n-j)
				got := make([]float32, n*k)
				if w.Rows(got, j, n); !slices.Equal(got, want[j*k:][:n*k]) {
					t.Fatalf("%v: rows %d to %d of %d terms are others", p, j, j+n-1, k)
				}
			}
		}
	}
}
