package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Pack replaces the elements of weight matrices (n, k) by the order in which a product with few rows reads them, in the
// given precision.
func Pack(p engine.Precision, ws ...*tensor.Tensor) {
	ms := make([]kernel.Matrix, len(ws))
	for i, w := range ws {
		if w.Dims() != 2 || len(w.Data()) != w.Len() {
			panic("engine/cpu.Pack: found " + w.String() + ", want a matrix with its elements")
		}
		ms[i] = kernel.InMemory(w.Data(), w.Dim(0), w.Dim(1))
	}
	for i, packed := range kernel.Pack(kernel.Precision(p), ms...) {
		ws[i].SetPacked(packedWeight{Packed: packed})
	}
}

// PackRows returns the packed forms of weight matrices whose elements are not in memory, for tensor.Tensor.SetPacked.
// It needs little memory besides.
func PackRows(p engine.Precision, ms ...engine.Matrix) []tensor.Packed {
	return packRows(ms, false, func(ms ...kernel.Matrix) []*kernel.Packed {
		return kernel.Pack(kernel.Precision(p), ms...)
	})
}

// PackExact is PackRows for matrices whose elements are bfloat16 numbers, which loses nothing: results are those of
// float32, and keys and values stay float32.
func PackExact(ms ...engine.Matrix) []tensor.Packed { return packRows(ms, true, kernel.PackExact) }

// PackFrozen is PackRows for weights that stay as they are while others train: they are rounded to BF16 or Int8, and
// results are those of float32 with the rounded weights, forward and backward. Float32 rounds nothing.
func PackFrozen(p engine.Precision, ms ...engine.Matrix) []tensor.Packed {
	return packRows(ms, true, func(ms ...kernel.Matrix) []*kernel.Packed {
		if p == engine.BF16 {
			for i, m := range ms {
				ms[i].Rows = func(j, n int, use func(x []float32)) {
					m.Rows(j, n, func(x []float32) {
						y := make([]float32, len(x))
						kernel.RoundBF16(y, x)
						use(y)
					})
				}
			}
			return kernel.PackExact(ms...)
		}
		return kernel.Pack(kernel.Precision(p), ms...)
	})
}

func packRows(ms []engine.Matrix, exact bool, pack func(...kernel.Matrix) []*kernel.Packed) []tensor.Packed {
	from, out := make([]kernel.Matrix, len(ms)), make([]tensor.Packed, len(ms))
	for i, m := range ms {
		from[i] = kernel.Matrix(m)
	}
	for i, packed := range pack(from...) {
		out[i] = packedWeight{packed, exact}
	}
	return out
}

// PackGroups returns the packed forms of weight matrices that are integers already, which rounds nothing. The precision
// is Int8, Int4 or Int4Min.
func PackGroups(p engine.Precision, ms ...engine.Groups) []tensor.Packed {
	from, out := make([]kernel.Groups, len(ms)), make([]tensor.Packed, len(ms))
	for i, m := range ms {
		from[i] = kernel.Groups(m)
	}
	for i, packed := range kernel.PackGroups(kernel.Precision(p), from...) {
		out[i] = packedWeight{Packed: packed}
	}
	return out
}

// product computes y = x Wᵀ + bias, x (m, k), W (n, k), packed or not, bias (n) or nil.
func (eng *Engine) product(m int, x []float32, w *tensor.Tensor, y, bias []float32) {
	n, k := w.Dim(0), w.Dim(1)
	if packed, ok := w.Packed().(packedWeight); ok {
		if packed.unrounded(m, eng.Precision) {
			eng.unpack(packed, n, k, func(j, rows int, part []float32) {
				p := kernel.Product{Op: kernel.NT, M: m, N: rows, K: k, A: x, LDA: k, B: part, LDB: k, C: y[j:], LDC: n}
				if bias != nil {
					p.Bias = bias[j:]
				}
				eng.precision().Gemm(p)
			})
			return
		}
		packed.Mul(m, x, k, y, n, bias)
		return
	}
	eng.precision().Gemm(kernel.Product{
		Op: kernel.NT, M: m, N: n, K: k, A: x, LDA: k, B: w.Data(), LDB: k, C: y, LDC: n, Bias: bias,
	})
}

// productBack computes dx = dy W, or adds it to dx: dy (m, n), W (n, k), packed or not, dx (m, k).
func (eng *Engine) productBack(m int, dy []float32, w *tensor.Tensor, dx []float32, add bool) {
	n, k := w.Dim(0), w.Dim(1)
	back := func(j, rows int, part []float32, add bool) {
		eng.precision().Gemm(kernel.Product{
			Op: kernel.NN, M: m, N: k, K: rows, A: dy[j:], LDA: n, B: part, LDB: k, C: dx, LDC: k, Add: add,
		})
	}
	if packed, ok := w.Packed().(packedWeight); ok {
		eng.unpack(packed, n, k, func(j, rows int, part []float32) { back(j, rows, part, add || j > 0) })
		return
	}
	back(0, n, w.Data(), add)
}

// unpackedTerms is about how many elements of a packed matrix are unpacked at a time: few beside the activations of a
// step, and enough that products run at full speed. They are whole runs of unpackedRows.
const (
	unpackedTerms = 1 << 20
	unpackedRows  = 48
)

// unpack calls use with the elements of some rows of a packed matrix (n, k) after the other.
func (eng *Engine) unpack(w packedWeight, n, k int, use func(j, rows int, part []float32)) {
	step := min(n, max(1, unpackedTerms/(unpackedRows*max(1, k)))*unpackedRows)
	buf := eng.arena.Borrow(step * k)
	defer eng.done(buf)
	for j := 0; j < n; j += step {
		rows := min(step, n-j)
		parallel.For((rows+unpackedRows-1)/unpackedRows, 1, func(lo, hi int) {
			from := lo * unpackedRows
			w.Rows(buf[from*k:], j+from, min(rows, hi*unpackedRows)-from)
		})
		use(j, rows, buf[:rows*k])
	}
}

// packedWeight is a packed matrix that knows in which precision to keep keys and values.
type packedWeight struct {
	*kernel.Packed
	exact bool // nothing was rounded, and nothing is to be
}

// unrounded tells whether a product with m rows is computed from unpacked elements: where its inputs would be rounded
// though nothing is to be, or not be rounded though all is. A few rows, such as those of a text that is written token
// by token, are not worth it.
func (w packedWeight) unrounded(m int, p engine.Precision) bool {
	const few = 8
	return w.exact && m >= few && (w.Precision() >= kernel.Int8 || p == engine.BF16)
}

// Kept, Exact, ReadRow and ReadGroups are engine.Rounding.
func (w packedWeight) Kept() engine.Precision       { return engine.Precision(w.Precision()) }
func (w packedWeight) Exact() bool                  { return w.exact }
func (w packedWeight) ReadRow(dst []float32, j int) { w.Row(dst, j) }
func (w packedWeight) ReadGroups(j int, q []int8, factor, least []uint16) (scale float32) {
	return w.Groups(j, q, factor, least)
}

// Rounded is room for keys and values in the precision of the weights, with weights of 4 bits in int8, nil for float32.
func (w packedWeight) Rounded() engine.Rounded {
	if p := w.Precision(); p != kernel.Float32 && !w.exact {
		return &roundedRows{precision: min(p, kernel.Int8)}
	}
	return nil
}

// roundedRows are keys and values in another precision.
type roundedRows struct {
	precision kernel.Precision
	rows      []kernel.RoundedRows // none, or keys and values
}

func (r *roundedRows) Empty(rows, headDim int) engine.Rounded {
	if rows == 0 {
		return &roundedRows{precision: r.precision}
	}
	return &roundedRows{r.precision, kernel.MakeRoundedRows(r.precision, 2, rows, headDim)}
}

func (r *roundedRows) Copy(to int, from engine.Rounded, at, n int) {
	for i := range r.rows {
		r.rows[i].CopyFrom(to, &from.(*roundedRows).rows[i], at, n)
	}
}

func (r *roundedRows) Set(which, row int, x []float32)    { r.rows[which].Set(row, x) }
func (r *roundedRows) Get(x []float32, which, row, n int) { r.rows[which].Get(x, row, n) }
func (r *roundedRows) InIntegers() bool                   { return r.precision == kernel.Int8 }

func (r *roundedRows) Integers(which, row, n int) (q []int8, factors []float32) {
	return r.rows[which].Integers(row, n)
}

func (r *roundedRows) SetIntegers(which, row int, q []int8, factors []float32) {
	r.rows[which].SetIntegers(row, q, factors)
}

func (r *roundedRows) RowBytes(headDim int) int { return kernel.RoundedRowBytes(r.precision, headDim) }
