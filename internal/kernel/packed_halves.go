package kernel

import (
	"encoding/binary"
	"sync"
	"unsafe"
)

// Matrices of bfloat16 are packed from their two bytes: a row is a row of 32-bit words, which is transposed like one of
// float32.

var halfPool = sync.Pool{New: func() any { return new([]byte) }}

// halves calls f on all cores with each panel and its rows as bfloat16 numbers, the lower byte first.
func (w *Packed) halves(from Matrix, f func(panel, rows int, x []byte)) {
	each := func(lo, hi, n int, x []byte) {
		for panel := lo; panel < hi; panel++ {
			at := (panel - lo) * packedWidth
			rows := min(packedWidth, n-at)
			f(panel, rows, x[2*at*w.k:][:2*rows*w.k])
		}
	}
	w.eachPiece(func(lo, hi, j, n int) {
		if from.BF16 != nil {
			from.BF16(j, n, func(x []byte) { each(lo, hi, n, x) })
			return
		}
		from.Rows(j, n, func(x []float32) {
			buf := halfPool.Get().(*[]byte)
			defer halfPool.Put(buf)
			if cap(*buf) < 2*len(x) {
				*buf = make([]byte, 2*len(x))
			}
			y := (*buf)[:2*len(x)]
			narrowHalves(y, x)
			each(lo, hi, n, y)
		})
	})
}

// narrowHalves rounds x to bfloat16 numbers, the lower byte first.
func narrowHalves(y []byte, x []float32) {
	done := 0
	if cpu.has(narrowHalvesCode) && len(x) >= 16 {
		done = len(x) &^ 15
		for lo := 0; lo < done; lo += callLength {
			vecNarrowHalves(min(callLength, done-lo), &halvesOf(y)[lo], &x[lo])
		}
	}
	for i := done; i < len(x); i++ {
		binary.LittleEndian.PutUint16(y[2*i:], uint16(bf16Bits(x[i])>>16))
	}
}

// halvesOf and wordsOf return the memory of bfloat16 numbers as such and as pairs of them, for assembly, which does not
// require alignment.
func halvesOf(x []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/2)
}
func wordsOf(x []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/4)
}

// least returns the smallest magnitude that is not treated as zero, for both numbers of a word.
func (w *Packed) least() uint32 {
	if w.roundsX() {
		return tinyTerm>>16 | tinyTerm
	}
	return 0
}

// fillHalves stores all rows of bfloat16 numbers word by word.
func (w *Packed) fillHalves(from Matrix) {
	w.halves(from, func(panel, rows int, x []byte) {
		at, step := w.at(panel * packedWidth)
		to := w.bf16[at:][:w.panelSteps()*step]
		if !cpu.has(packCode|turnHalvesCode) || w.k%2 != 0 || len(x) == 0 {
			w.setHalves(to, rows, x)
			return
		}
		words := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(to))), len(to)/2)
		transpose(words, wordsOf(x), w.k/2, rows, w.k/2, packedWidth)
		for lo := 0; lo < len(words); lo += callLength {
			vecTurnHalves(min(callLength, len(words)-lo), &words[lo], w.least())
		}
	})
}

// setHalves is the portable fillHalves for the rows of a panel, which defines its results.
func (w *Packed) setHalves(to []uint16, rows int, x []byte) {
	for r := range rows {
		for i := range w.k {
			bits := uint32(binary.LittleEndian.Uint16(x[2*(r*w.k+i):])) << 16
			if w.roundsX() {
				bits = unlessTiny(bits)
			}
			to[i/2*2*packedWidth+2*r+1-i%2] = uint16(bits >> 16)
		}
	}
}
