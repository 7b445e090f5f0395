package kernel

import (
	"math"
	"unsafe"
)

// HalvesIn returns the memory of floats as bfloat16 numbers, as many as there is room for.
func HalvesIn(memory []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(memory))), 2*len(memory))
}

// Widen sets dst to the bfloat16 numbers src.
func Widen(dst []float32, src []uint16) {
	if cpu.has(widenBF16Code) {
		for len(dst) >= Lanes {
			n := min(callLength, len(dst)) &^ (Lanes - 1)
			vecWidenBF16(1, n, &src[:n][0], &dst[0])
			dst, src = dst[n:], src[n:]
		}
	}
	for i, v := range src[:len(dst)] {
		dst[i] = math.Float32frombits(uint32(v) << 16)
	}
}

// Narrow sets dst to src, each rounded to the nearest bfloat16, ties to even. NaN stays NaN.
func Narrow(dst []uint16, src []float32) {
	if cpu.has(narrowHalvesCode) {
		for len(src) >= Lanes {
			n := min(callLength, len(src)) &^ (Lanes - 1)
			vecNarrowHalves(n, &dst[:n][0], &src[0])
			dst, src = dst[n:], src[n:]
		}
	}
	for i, v := range src[:len(dst)] {
		dst[i] = uint16(bf16Bits(v) >> 16)
	}
}

// Apart sets dst to the elements of x with even indices, followed by those with odd ones: the order that SSDStepHalves
// uses for B and C.
func Apart(dst, x []float32) {
	even, odd := dst[:(len(x)+1)/2], dst[(len(x)+1)/2:len(x)]
	for i := range odd {
		even[i], odd[i] = x[2*i], x[2*i+1]
	}
	if len(x)%2 == 1 {
		even[len(odd)] = x[len(x)-1]
	}
}

// SSDStepHalves is SSDStep for a state in bfloat16, with b and c in the order of Apart. It computes in float32: y is
// computed from the state before it is rounded to the nearest, ties to even.
func SSDStepHalves(y []float32, h []uint16, x, b, c []float32, decay float32) {
	d, n := len(y), len(b)
	x, h, c = x[:d], h[:d*n], c[:n]
	if cpu.has(ssdStepHalvesCode) && n > 0 && n%2 == 0 {
		part := max(1, scanWork/max(n, 2*Lanes))
		for v := 0; v < d; v += part {
			vecSsdStepHalves(min(part, d-v), n/2, &y[v], &h[v*n], &x[v], &b[0], &c[0], decay)
		}
		return
	}
	odd := (n + 1) / 2 // the first of the elements with odd indices
	for v, in := range x {
		sum := float32(0)
		row := h[v*n:][:n]
		for i, half := range row {
			at := i/2 + i%2*odd
			s := float32(decay*math.Float32frombits(uint32(half)<<16)) + float32(in*b[at])
			row[i] = uint16(bf16Bits(s) >> 16)
			sum += float32(c[at] * s)
		}
		y[v] = sum
	}
}
