package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
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
		packed.Mul(m, x, k, y, n, bias)
		return
	}
	eng.precision().Gemm(kernel.Product{
		Op: kernel.NT, M: m, N: n, K: k, A: x, LDA: k, B: w.Data(), LDB: k, C: y, LDC: n, Bias: bias,
	})
}

// packedWeight is a packed matrix that knows in which precision to keep keys and values.
type packedWeight struct {
	*kernel.Packed
	exact bool // nothing was rounded, and nothing is to be
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
func (r *roundedRows) RowBytes(headDim int) int           { return kernel.RoundedRowBytes(r.precision, headDim) }
