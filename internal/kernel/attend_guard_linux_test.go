package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestAttendStaysInBounds checks that memory before and after the operands is neither read nor written.
func TestAttendStaysInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 4))
		var tile RowTile
		attendSizes(rng, func(n, k, ldw int, w, x []float32) {
			atEnd := rng.IntN(3) > 0
			var frees []func()
			guard := func(s []float32) []float32 {
				y, free := guarded(t, s, atEnd)
				frees = append(frees, free)
				return y
			}
			w = guard(w)
			RowDots(n, k, w, ldw, guard(x[:k]), guard(make([]float32, n)))
			RowSums(n, k, w, ldw, guard(x[:n]), guard(make([]float32, k)), true)
			for _, p := range roundedPrecisions {
				r := &MakeRoundedRows(p, 1, n, k)[0]
				words := guard(make([]float32, ceil(RoundedRowBytes(p, k)*n, 4)))
				if p == BF16 {
					r.bf16 = unsafe.Slice((*uint16)(unsafe.Pointer(&words[0])), 2*len(words))[2*len(words)-n*k:]
				} else {
					r.int8 = unsafe.Slice((*int8)(unsafe.Pointer(&words[0])), 4*len(words))[4*len(words)-n*k:]
					r.scale = guard(r.scale)
				}
				r.Set(n-1, guard(make([]float32, k)))
				if p == BF16 {
					r.Dots(0, n, guard(x[:k]), guard(make([]float32, n)))
					r.Sums(0, n, guard(x[:n]), guard(make([]float32, k)), true)
				} else {
					few := min(n, TileRows)
					run := Run{r, n - few, few}
					tile.Keys(run, run, 1)
					tile.Dots(roundedVectors(1, k, guard(x[:k])), 0, 1, guard(make([]float32, few)), few)
					tile.Values(run, run, 1)
					tile.Sums(1, guard(make([]float32, few)), few, guard(make([]float32, k)), k, true)
				}
				r.Get(guard(make([]float32, n*k)), 0, n)
			}
			for _, free := range frees {
				free()
			}
		})
	})
}
