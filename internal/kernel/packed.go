package kernel

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/internal/hugepage"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// Packed is a matrix W (n, k) of weights for products y = x Wᵀ (see Mul), stored in the order in which they read it. It
// has panels of 48 rows. Within a panel the words of 32 bits of its 48 rows lie side by side, step by step. A word
// holds one term in float32, two in bfloat16, the first in its upper half, and four in int8. So memory is read strictly
// in sequence, and a vector of weights is multiplied by a broadcast element of x without shuffles or sums across lanes.
type Packed struct {
	n, k      int
	precision Precision
	f32       []float32 // one of these three is used, by precision
	bf16      []uint16
	int8      []int8
	scale     []float32 // Int8: W[j] is scale[j] times its integers; one for each row of a panel, 0 for padding
	short     []uint32  // instead of bf16 its short form,
	heads     []uint32  // of its blocks,
	starts    []int     // and where in it each run of blockedK terms of a panel begins
}

// MaxInt8Terms is the largest k for which any sum of k products of int8 fits into 32 bits.
const MaxInt8Terms = (1<<31 - 1) / (127 * 127)

// Matrix is W (N, K), which need not be in memory: Rows calls use once with the elements of rows j to j+n-1, row-major,
// which use does not keep. Several goroutines call it, and may ask for a row more than once.
type Matrix struct {
	N, K int
	Rows func(j, n int, use func(x []float32))
}

// InMemory is the matrix (n, k) with the elements w.
func InMemory(w []float32, n, k int) Matrix {
	return Matrix{N: n, K: k, Rows: func(j, n int, use func(x []float32)) { use(w[j*k:][:n*k]) }}
}

// Pack packs matrices side by side into one piece of memory: a large one streams best. Besides that it takes little, as
// it asks for a few rows at a time. The elements must be finite unless the precision is Float32, or the result is of no
// use; at Int8, K must be at most MaxInt8Terms.
func Pack(precision Precision, ms ...Matrix) []*Packed {
	out := make([]*Packed, len(ms))
	for i, m := range ms {
		if precision == Int8 && m.K > MaxInt8Terms {
			panic(fmt.Sprintf("kernel.Pack: rows of %d numbers, want at most %d for int8", m.K, MaxInt8Terms))
		}
		out[i] = &Packed{n: m.N, k: m.K, precision: precision}
	}
	plain := out
	if precision == BF16 {
		plain = shorten(out, ms)
	}
	words := 0
	for _, p := range plain {
		words += p.words()
	}
	switch precision {
	case Float32:
		all := hugepage.Make[float32](words)
		for _, p := range plain {
			p.f32, all = all[:p.words():p.words()], all[p.words():]
		}
	case BF16:
		all := hugepage.Make[uint16](2 * words)
		for _, p := range plain {
			p.bf16, all = all[:2*p.words():2*p.words()], all[2*p.words():]
		}
	default:
		all := hugepage.Make[int8](4 * words)
		for _, p := range out {
			p.int8, all = all[:4*p.words():4*p.words()], all[4*p.words():]
			p.scale = make([]float32, p.panels()*packedWidth)
		}
	}
	for i, p := range out {
		if p.short == nil {
			p.fill(ms[i])
		}
	}
	return out
}

const packedWidth = 48 // rows of W in a panel, which are columns of y: the width of a tile of the float32 product

// panels is the number of panels.
func (w *Packed) panels() int { return ceil(w.n, packedWidth) }

// perWord is the number of terms in a word.
func (w *Packed) perWord() int { return [...]int{Float32: 1, BF16: 2, Int8: 4}[w.precision] }

// panelSteps is the number of words of a row in its panel.
func (w *Packed) panelSteps() int { return ceil(w.k, w.perWord()) }

// at returns the place of element (j, 0), and the distance between the first terms of consecutive words.
func (w *Packed) at(j int) (start, step int) {
	step = packedWidth * w.perWord()
	return j/packedWidth*w.panelSteps()*step + j%packedWidth*w.perWord(), step
}

// words is the number of words of 32 bits in all panels.
func (w *Packed) words() int { return w.panels() * w.panelSteps() * packedWidth }

// pieceTerms is about the number of elements that are asked of a Matrix at a time.
const pieceTerms = 1 << 18

// pieces calls f on all cores with panels lo to hi and their rows.
func (w *Packed) pieces(from Matrix, f func(lo, hi int, rows []float32)) {
	parallel.For(w.panels(), pieceTerms/(packedWidth*max(1, w.k)), func(lo, hi int) {
		j := lo * packedWidth
		from.Rows(j, min(w.n, hi*packedWidth)-j, func(rows []float32) { f(lo, hi, rows) })
	})
}

// fill stores all rows.
func (w *Packed) fill(from Matrix) {
	w.pieces(from, func(lo, hi int, rows []float32) {
		tmp := make([]int8, w.k)
		for j := lo * packedWidth; j < min(w.n, hi*packedWidth); j++ {
			w.setRow(j, rows[(j-lo*packedWidth)*w.k:][:w.k], tmp)
		}
	})
}

// setRow stores row j. tmp has room for k integers.
func (w *Packed) setRow(j int, row []float32, tmp []int8) {
	at, step := w.at(j)
	switch w.precision {
	case Float32:
		for i, v := range row {
			w.f32[at+i*step] = v
		}
	case BF16:
		for i, v := range row {
			w.bf16[at+i/2*step+1-i%2] = uint16(termBits(v) >> 16)
		}
	default:
		w.scale[j], _ = quantizeRow(tmp, row)
		for i, v := range tmp {
			w.int8[at+i/4*step+i%4] = v
		}
	}
}

// Row sets dst (k) to row j of W, as float32.
func (w *Packed) Row(dst []float32, j int) {
	dst = dst[:w.k]
	if w.short != nil {
		w.shortRow(dst, j)
		return
	}
	at, step := w.at(j)
	switch w.precision {
	case Float32:
		for i := range dst {
			dst[i] = w.f32[at+i*step]
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(w.bf16[at+i/2*step+1-i%2]) << 16)
		}
	default:
		for i := range dst {
			dst[i] = float32(w.int8[at+i/4*step+i%4]) * w.scale[j]
		}
	}
}

// Len is the number of elements, n·k.
func (w *Packed) Len() int { return w.n * w.k }

// Bytes is the memory that a product reads.
func (w *Packed) Bytes() int {
	return 4*len(w.f32) + 2*len(w.bf16) + len(w.int8) + 4*len(w.scale) + 4*(len(w.short)+len(w.heads))
}

// Precision is the precision of the weights.
func (w *Packed) Precision() Precision { return w.precision }
