package kernel

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// TestGemmInline: one core alone gives the bits that all give together, and allocates nothing however large the product.
func TestGemmInline(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	rng := rand.New(rand.NewPCG(7, 7))
	for _, op := range []Op{NN, NT, TN} {
		p := randomProduct(rng, op, 120, 70, 90) // three times what Gemm begins to share
		want := p.result()
		inline := func() {
			GemmInline(p.op, p.m, p.n, p.k, p.a, p.lda, p.b, p.ldb, p.c, p.ldc, p.bias, p.add)
		}
		inline()
		if !slices.Equal(p.c[:len(want)], want) {
			t.Errorf("%s: differs from Gemm", opNames[op])
		}
		if n := testing.AllocsPerRun(3, inline); n != 0 {
			t.Errorf("%s: %v allocations", opNames[op], n)
		}
	}
}
