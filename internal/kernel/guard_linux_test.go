package kernel

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"
)

// guarded returns a copy of x that ends or begins next to inaccessible memory, and a function that frees it.
func guarded(t *testing.T, x []float32, atEnd bool) (y []float32, free func()) {
	t.Helper()
	page := syscall.Getpagesize()
	size := (4*len(x) + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for _, guard := range [][]byte{mem[:page], mem[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	start := page
	if atEnd {
		start += size - 4*len(x)
	}
	y = unsafe.Slice((*float32)(unsafe.Pointer(&mem[start])), len(x))
	copy(y, x)
	return y, func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Fatal(err)
		}
	}
}

// inGuards computes the product with its operands next to inaccessible memory.
func (p Product) inGuards(t *testing.T, atEnd bool) {
	t.Helper()
	rowsA, colsA, rowsB, colsB := p.M, p.K, p.K, p.N
	switch p.Op {
	case NT:
		rowsB, colsB = p.N, p.K
	case TN:
		rowsA, colsA = p.K, p.M
	}
	var frees [4]func()
	p.A, frees[0] = guarded(t, p.A[:(rowsA-1)*p.LDA+colsA], atEnd)
	p.B, frees[1] = guarded(t, p.B[:(rowsB-1)*p.LDB+colsB], atEnd)
	p.C, frees[2] = guarded(t, p.C[:(p.M-1)*p.LDC+p.N], atEnd)
	if p.Bias != nil {
		p.Bias, frees[3] = guarded(t, p.Bias[:p.N], atEnd)
	}
	for _, p.bf16 = range []bool{false, true} {
		p.into(p.C)
	}
	for _, free := range frees {
		if free != nil {
			free()
		}
	}
}

// TestGemmStaysInBounds checks that memory before and after an operand is neither read nor written.
func TestGemmStaysInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 4))
		for range 600 {
			m, n, k := someM[rng.IntN(len(someM)-2)], someN[rng.IntN(len(someN))], someK[rng.IntN(len(someK))]
			integers(rng, Op(rng.IntN(3)), m, n, k).inGuards(t, rng.IntN(3) > 0)
		}
		for tail := range 8 { // so large that B or Aᵀ are copied
			integers(rng, NN, 97, 384+tail, 385).inGuards(t, true)
			integers(rng, TN, 384+tail, 50, 385).inGuards(t, true)
		}
	})
}
