package kernel

import (
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/internal/hugepage"
)

// RoundedRows holds rows of k numbers, for example the keys or the values of attention, in bfloat16, or in int8:
// integers from -127 to 127 times a factor for each row. Factors have 16 bits, so every number is exactly a float32,
// and rounding that float32 again gives the same number.
type RoundedRows struct {
	n, k  int
	bf16  []uint16
	int8  []int8
	scale []float32 // Int8: one for each row
}

// MakeRoundedRows returns times sets of n rows of k zeros, side by side in one piece of memory. The precision is BF16
// or Int8.
func MakeRoundedRows(p Precision, times, n, k int) []RoundedRows {
	out := make([]RoundedRows, times)
	size := roundUp(n*k, 64) // whole cache lines
	var half []uint16
	var whole []int8
	if p == BF16 {
		half = hugepage.Make[uint16](times * size)
	} else {
		whole = hugepage.Make[int8](times * size)
	}
	for i := range out {
		out[i] = RoundedRows{n: n, k: k}
		if p == BF16 {
			out[i].bf16, half = half[:n*k:n*k], half[size:]
		} else {
			out[i].int8, whole, out[i].scale = whole[:n*k:n*k], whole[size:], make([]float32, n)
		}
	}
	return out
}

// RoundedRowBytes returns the size of the memory of a row of k numbers.
func RoundedRowBytes(p Precision, k int) int {
	return [...]int{Float32: 4 * k, BF16: 2 * k, Int8: k + 4}[p]
}

// Len returns the number of rows.
func (r *RoundedRows) Len() int { return r.n }

// Set rounds x into row i. In int8, a row that contains a NaN or an infinity becomes NaN.
func (r *RoundedRows) Set(i int, x []float32) {
	if r.bf16 != nil {
		for j, v := range x[:r.k] {
			r.bf16[i*r.k+j] = uint16(bf16Bits(v) >> 16)
		}
		return
	}
	r.scale[i] = roundToInt8(r.int8[i*r.k:][:r.k], x)
}

// roundToInt8 rounds x to integers and returns their factor, the smallest number of 16 bits for which no integer
// exceeds 127.
func roundToInt8(q []int8, x []float32) (scale float32) {
	x = x[:len(q)]
	top := largest(x)
	if !(top <= math.MaxFloat32) {
		clear(q)
		return top - top
	}
	scale = math.Float32frombits((math.Float32bits(top/127) + 0xff) &^ 0xff)
	inverse := 1 / scale
	if inverse > math.MaxFloat32 { // all zero, or nearly so
		clear(q)
		return 0
	}
	roundInto(q, x, inverse)
	return scale
}

// Get sets dst (m, k) to rows i to i+m.
func (r *RoundedRows) Get(dst []float32, i, m int) {
	if m == 0 || r.k == 0 {
		return
	}
	dst = dst[:m*r.k]
	if r.k%16 == 0 && r.directWiden(i, m, dst) {
		return
	}
	if r.bf16 != nil {
		for j, v := range r.bf16[i*r.k:][:len(dst)] {
			dst[j] = math.Float32frombits(uint32(v) << 16)
		}
		return
	}
	for row := range m {
		scale, y := r.scale[i+row], dst[row*r.k:][:r.k]
		for j, v := range r.int8[(i+row)*r.k:][:r.k] {
			y[j] = float32(v) * scale
		}
	}
}

// Integers returns the integers of rows i to i+m of Int8 and their factors, in place.
func (r *RoundedRows) Integers(i, m int) (q []int8, scale []float32) {
	return r.int8[i*r.k:][:m*r.k], r.scale[i:][:m]
}

// SetIntegers sets rows of Int8 from row i on.
func (r *RoundedRows) SetIntegers(i int, q []int8, scale []float32) {
	copy(r.int8[i*r.k:], q)
	copy(r.scale[i:], scale)
}

// CopyFrom copies n rows of src, from row i on, to the rows of r from row at on. Both are of the same kind; r may be
// src.
func (r *RoundedRows) CopyFrom(at int, src *RoundedRows, i, n int) {
	if r.bf16 != nil {
		copy(r.bf16[at*r.k:][:n*r.k], src.bf16[i*r.k:])
		return
	}
	copy(r.int8[at*r.k:][:n*r.k], src.int8[i*r.k:])
	copy(r.scale[at:][:n], src.scale[i:])
}

// Dots sets y[j] = Σ_p r[i+j,p]·x[p] for j < m, like RowDots, for rows in bfloat16.
func (r *RoundedRows) Dots(i, m int, x, y []float32) {
	y = y[:m]
	if m < 4 || r.k%16 != 0 || r.k == 0 || !r.directDots(i, m, x, y) {
		r.inParts(i, m, func(at, n int, rows []float32) { RowDots(n, r.k, rows, r.k, x, y[at:]) })
	}
}

// Sums sets y[p] = Σ_j x[j]·r[i+j,p] for j < m, like RowSums, or adds that to y, for rows in bfloat16.
func (r *RoundedRows) Sums(i, m int, x, y []float32, add bool) {
	x, y = x[:m], y[:r.k]
	if m == 0 {
		if !add {
			clear(y)
		}
		return
	}
	if r.k%16 == 0 && r.k > 0 && r.directSums(i, m, x, y, add) {
		return
	}
	r.inParts(i, m, func(at, n int, rows []float32) {
		GemmInline(Product{
			Op: NN, M: 1, N: r.k, K: n, A: x[at:], LDA: n, B: rows, LDB: r.k, C: y, LDC: r.k, Add: add || at > 0,
		})
	})
}

var rowsPool = sync.Pool{New: func() any { return new([]float32) }}

// partRows is the number of rows that are converted to float32 at a time. It is a multiple of blockK and blockedK, so
// that sums over rows equal those of one product.
const partRows = 768

// inParts calls f with the numbers of rows i to i+m as float32.
func (r *RoundedRows) inParts(i, m int, f func(at, n int, rows []float32)) {
	buf := rowsPool.Get().(*[]float32)
	defer rowsPool.Put(buf)
	if most := min(m, partRows) * r.k; cap(*buf) < most {
		*buf = make([]float32, most)
	}
	for at := 0; at < m; at += partRows {
		n := min(partRows, m-at)
		rows := (*buf)[:n*r.k]
		r.Get(rows, i+at, n)
		f(at, n, rows)
	}
}
