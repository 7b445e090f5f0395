package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestPackedStaysInBounds checks that memory before and after weights and operands is neither read nor written.
func TestPackedStaysInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 5))
		packedSizes(rng, func(c packedCase) {
			for _, p := range precisions {
				w, atEnd := c.pack(p), rng.IntN(3) > 0
				var frees []func()
				guard := func(x []float32) []float32 {
					y, free := guarded(t, x, atEnd)
					frees = append(frees, free)
					return y
				}
				switch {
				case w.short != nil:
					words := guard(unsafe.Slice((*float32)(unsafe.Pointer(&w.short[0])), len(w.short)))
					w.short = unsafe.Slice((*uint32)(unsafe.Pointer(&words[0])), len(w.short))
					words = guard(unsafe.Slice((*float32)(unsafe.Pointer(&w.heads[0])), len(w.heads)))
					w.heads = unsafe.Slice((*uint32)(unsafe.Pointer(&words[0])), len(w.heads))
				case p == Float32:
					w.f32 = guard(w.f32)
				case p == BF16:
					words := guard(unsafe.Slice((*float32)(unsafe.Pointer(&w.bf16[0])), len(w.bf16)/2))
					w.bf16 = unsafe.Slice((*uint16)(unsafe.Pointer(&words[0])), len(w.bf16))
				default:
					blocks := &w.groups.blocks
					words := guard(unsafe.Slice((*float32)(unsafe.Pointer(&(*blocks)[0])), len(*blocks)/4))
					*blocks = unsafe.Slice((*uint8)(unsafe.Pointer(&words[0])), len(*blocks))
					w.groups.row = guard(w.groups.row)
				}
				x, y, bias := guard(c.x[:(c.m-1)*c.ldx+c.k]), guard(c.y[:(c.m-1)*c.ldy+c.n]), c.bias
				if bias != nil {
					bias = guard(bias[:c.n])
				}
				w.Mul(c.m, x, c.ldx, y, c.ldy, bias)
				for _, free := range frees {
					free()
				}
			}
		})
	})
}
