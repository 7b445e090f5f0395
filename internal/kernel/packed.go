package kernel

import (
	"math"

	"github.com/hippo-ssm/hippo/internal/hugepage"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// Packed is a matrix W (n, k) of weights for products y = x Wᵀ (see Mul), stored in the order in which they read it. It
// has panels of 48 rows, or of 16 rows for integers. Within a panel the 32-bit words of its rows lie side by side, step
// by step. A word holds one term in float32, two in bfloat16, the first in its upper half, four in int8, eight in int4.
// So memory is read strictly in sequence, and a vector of weights is multiplied by a broadcast element of x without
// shuffles or sums across lanes.
// shuffles or sums across lanes.
type Packed struct {
	n, k      int
	precision Precision
	exact     bool      // at BF16: the weights were bfloat16, and x is not rounded
	f32       []float32 // one of these three is used, by precision
	bf16      []uint16
	groups    grouped
	short     []uint32 // instead of bf16 its short form,
	heads     []uint32 // of its blocks,
	starts    []int    // and where in it each run of blockedK terms of a panel begins
}

// Matrix is W (N, K), which need not be in memory: Rows calls use once with the elements of rows j to j+n-1, row-major,
// which use must not keep. Several goroutines call Rows, and may ask for a row more than once.
type Matrix struct {
	N, K int
	Rows func(j, n int, use func(x []float32))
	// BF16, unless it is nil, calls use with the same elements as bfloat16 numbers of two bytes, the lower one first.
	// It is faster if the elements are stored that way.
	BF16 func(j, n int, use func(x []byte))
}

// InMemory returns the matrix (n, k) with the elements w.
func InMemory(w []float32, n, k int) Matrix {
	return Matrix{N: n, K: k, Rows: func(j, n int, use func(x []float32)) { use(w[j*k:][:n*k]) }}
}

// Pack packs matrices side by side into one piece of memory, because a large one streams best. It needs little other
// memory, because it asks for a few rows at a time. The elements must be finite unless the precision is Float32, or the
// result is useless; at Int8, K must be at most MaxInt8Terms.
func Pack(precision Precision, ms ...Matrix) []*Packed { return pack(precision, false, ms) }

// PackExact is Pack at BF16 for matrices whose products are those of float32 with the rounded elements, to the last
// bit: x is not rounded. Elements that are bfloat16 numbers stay as they are.
func PackExact(ms ...Matrix) []*Packed { return pack(BF16, true, ms) }

func pack(precision Precision, exact bool, ms []Matrix) []*Packed {
	out := make([]*Packed, len(ms))
	for i, m := range ms {
		out[i] = &Packed{n: m.N, k: m.K, precision: precision, exact: exact}
	}
	plain := out
	if precision == BF16 {
		plain = shorten(out, ms)
	}
	if precision >= Int8 {
		makeGroups(out)
		plain = nil
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
	}
	for i, p := range out {
		switch {
		case p.short != nil:
		case precision == BF16:
			p.fillHalves(ms[i])
		default:
			p.fill(ms[i])
		}
	}
	return out
}

const packedWidth = 48 // rows of W in a panel, which are columns of y: the width of a tile of the float32 product

// width returns the number of rows of a panel.
func (w *Packed) width() int {
	if w.inGroups() {
		return groupWidth
	}
	return packedWidth
}

// panels returns the number of panels.
func (w *Packed) panels() int { return ceil(w.n, w.width()) }

// perWord returns the number of terms in a word of floats.
func (w *Packed) perWord() int { return [...]int{Float32: 1, BF16: 2}[w.precision] }

// panelSteps returns the number of words of a row in its panel.
func (w *Packed) panelSteps() int { return ceil(w.k, w.perWord()) }

// at returns the index of element (j, 0), and the distance between the first terms of consecutive words.
func (w *Packed) at(j int) (start, step int) {
	step = packedWidth * w.perWord()
	return j/packedWidth*w.panelSteps()*step + j%packedWidth*w.perWord(), step
}

// words returns the number of 32-bit words in all panels.
func (w *Packed) words() int { return w.panels() * w.panelSteps() * packedWidth }

// pieceTerms is the approximate number of elements that are requested from a Matrix at a time.
const pieceTerms = 1 << 18

// eachPiece calls f on all cores with panels lo to hi, which are n rows from row j on.
func (w *Packed) eachPiece(f func(lo, hi, j, n int)) {
	width := w.width()
	parallel.For(w.panels(), pieceTerms/(width*max(1, w.k)), func(lo, hi int) {
		f(lo, hi, lo*width, min(w.n, hi*width)-lo*width)
	})
}

// fill stores all rows of floats or integers.
func (w *Packed) fill(from Matrix) {
	w.eachPiece(func(lo, hi, j, n int) {
		from.Rows(j, n, func(rows []float32) {
			if w.inGroups() {
				w.setRows(j, n, rows)
				return
			}
			for panel := lo; panel < hi; panel++ {
				at := (panel - lo) * packedWidth
				w.setFloats(panel, rows[at*w.k:][:min(packedWidth, n-at)*w.k])
			}
		})
	})
}

// setFloats stores the rows of a panel.
func (w *Packed) setFloats(panel int, rows []float32) {
	at, step := w.at(panel * packedWidth)
	if cpu.has(packCode) && w.k > 0 {
		transpose(w.f32[at:], rows, w.k, len(rows)/w.k, w.k, step)
		return
	}
	for r := 0; r*w.k < len(rows); r++ {
		for i, v := range rows[r*w.k:][:w.k] {
			w.f32[at+r+i*step] = v
		}
	}
}

// Rows sets dst (n, k) to n rows of W from row j on, as float32. It is faster than one by one.
func (w *Packed) Rows(dst []float32, j, n int) {
	for n > 0 {
		m := min(n, w.width()-j%w.width()) // rows of one panel
		switch {
		case w.short != nil:
			w.shortRows(dst, j, m)
		case w.inGroups():
			w.groupsRows(dst, j, m)
		default:
			for i := range m {
				w.Row(dst[i*w.k:], j+i)
			}
		}
		dst, j, n = dst[m*w.k:], j+m, n-m
	}
}

// Row sets dst (k) to row j of W, as float32.
func (w *Packed) Row(dst []float32, j int) {
	dst = dst[:w.k]
	if w.short != nil {
		w.shortRows(dst, j, 1)
		return
	}
	if w.inGroups() {
		w.groupsRow(dst, j)
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
	}
}

// Len returns the number of elements, n·k.
func (w *Packed) Len() int { return w.n * w.k }

// Bytes returns the size of the memory that a product reads.
func (w *Packed) Bytes() int {
	return 4*len(w.f32) + 2*len(w.bf16) + w.groups.bytes() + 4*(len(w.short)+len(w.heads))
}

// roundsX reports whether x is rounded to bfloat16, too.
func (w *Packed) roundsX() bool { return w.precision == BF16 && !w.exact }

// Precision returns the precision of the weights.
func (w *Packed) Precision() Precision { return w.precision }
