package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// eachInline calls f with every form of product, three times as large as those that Gemm begins to split over cores.
func eachInline(f func(what string, p *Product, inline func())) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, op := range []Op{NN, NT, TN} {
		for _, bf16 := range []bool{false, true} {
			p := randomProduct(rng, op, 120, 70, 90)
			p.bf16 = bf16
			gemm := GemmInline
			if bf16 {
				gemm = GemmBF16Inline
			}
			f(fmt.Sprintf("%s, bf16=%v", opNames[op], bf16), &p, func() { gemm(p) })
		}
	}
}

// TestGemmInline checks that one core gives the same bits as all cores.
func TestGemmInline(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	eachInline(func(what string, p *Product, inline func()) {
		want := p.result()
		inline()
		if !slices.Equal(p.C[:len(want)], want) {
			t.Errorf("%s: differs from what all cores compute", what)
		}
	})
}

// TestGemmInlineDoesNotAllocate checks that inline products do not allocate, however large they are.
func TestGemmInlineDoesNotAllocate(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	eachInline(func(what string, _ *Product, inline func()) {
		inline()
		if n := testing.AllocsPerRun(3, inline); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	})
}
