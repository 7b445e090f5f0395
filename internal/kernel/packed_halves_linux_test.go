package kernel

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"unsafe"
)

// TestPackingStaysInBounds checks that memory before and after a matrix, and its packed form, is neither read nor
// written.
func TestPackingStaysInBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	atLevels(t, func(t *testing.T) {
		for range 40 {
			n, k := 1+rng.IntN(110), 2*(1+rng.IntN(100))
			if rng.IntN(3) > 0 {
				k = 16 * (1 + rng.IntN(20))
			}
			x := make([]float32, n*k/2)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			atEnd := rng.IntN(3) > 0
			words, free := guarded(t, x, atEnd)
			halves := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 4*len(words))
			from := Matrix{N: n, K: k, BF16: func(j, n int, use func([]byte)) { use(halves[2*j*k:][:2*n*k]) }}
			p := PackExact(from)[0]
			if p.short != nil {
				want := slices.Clone(p.short)
				to, free := guarded(t, make([]float32, len(want)), atEnd)
				p.short = unsafe.Slice((*uint32)(unsafe.Pointer(&to[0])), len(want))
				p.fillShort(from)
				if !slices.Equal(p.short, want) {
					t.Errorf("%dx%d: other bits at another place", n, k)
				}
				free()
			} else {
				want := slices.Clone(p.bf16)
				to, free := guarded(t, make([]float32, len(want)/2), atEnd)
				p.bf16 = unsafe.Slice((*uint16)(unsafe.Pointer(&to[0])), len(want))
				p.fillHalves(from)
				if !slices.Equal(p.bf16, want) {
					t.Errorf("%dx%d: other bits at another place", n, k)
				}
				free()
			}
			free()
		}
	})
}

// TestPackingFaults checks that a truncated mapped file causes a panic that its reader can recover from.
func TestPackingFaults(t *testing.T) {
	const n, k = 48, 1024
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, make([]byte, 2*n*k), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := syscall.Mmap(int(f.Fd()), 0, 2*n*k, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(mem)
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	atLevels(t, func(t *testing.T) {
		faults := 0
		PackExact(Matrix{N: n, K: k, BF16: func(j, n int, use func([]byte)) {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if recover() != nil {
					faults++
				}
			}()
			use(mem[2*j*k:][:2*n*k])
		}})
		if faults == 0 {
			t.Error("no fault was seen")
		}
	})
}
