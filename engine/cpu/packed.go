package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Pack packs matrices side by side in one piece of memory.
func (Backend) Pack(p engine.Precision, as engine.PackAs, ms ...engine.Matrix) []tensor.Packed {
	from := make([]kernel.Matrix, len(ms))
	for i, m := range ms {
		from[i] = kernel.Matrix(m)
	}
	switch {
	case as == engine.PackExact, as == engine.PackFrozen && p == engine.BF16:
		return packedWeights(kernel.PackExact(from...), true)
	default:
		return packedWeights(kernel.Pack(kernel.Precision(p), from...), as == engine.PackFrozen)
	}
}

func packedWeights(all []*kernel.Packed, exact bool) []tensor.Packed {
	out := make([]tensor.Packed, len(all))
	for i, packed := range all {
		out[i] = packedWeight{packed, exact}
	}
	return out
}

// PackGroups packs matrices that are integers already.
func (Backend) PackGroups(p engine.Precision, ms ...engine.Groups) []tensor.Packed {
	from := make([]kernel.Groups, len(ms))
	for i, m := range ms {
		from[i] = kernel.Groups(m)
	}
	return packedWeights(kernel.PackGroups(kernel.Precision(p), from...), false)
}

// product computes y = x Wᵀ + bias, where x is (m, k), W is (n, k), packed or not, and bias is (n) or nil.
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

// productBack sets dx (m, k) to dy W, or adds it to dx, where dy is (m, n) and W is (n, k), packed or not.
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

// unpackedTerms is approximately the number of elements of a packed matrix that are unpacked at a time: few compared
// with the activations of a step, and enough for products to run at full speed. They are multiples of unpackedRows.
const (
	unpackedTerms = 1 << 20
	unpackedRows  = 48
)

// unpack calls use with the unpacked elements of a packed matrix (n, k), some rows at a time.
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

// packedWeight is a packed matrix that chooses the precision of keys and values.
type packedWeight struct {
	*kernel.Packed
	exact bool // nothing was rounded, and nothing may be
}

// unrounded reports whether a product with m rows is computed from unpacked elements: if its inputs would be rounded
// though nothing may be, or would not be rounded though everything is. For a few rows, as in a text that is generated
// token by token, this is not worth while.
func (w packedWeight) unrounded(m int, p engine.Precision) bool {
	const few = 8
	return w.exact && m >= few && (w.Precision() >= kernel.Int8 || p == engine.BF16)
}

// Stored, Exact, ReadRow and ReadGroups implement engine.Rounding.
func (w packedWeight) Stored() engine.Precision     { return engine.Precision(w.Precision()) }
func (w packedWeight) Exact() bool                  { return w.exact }
func (w packedWeight) ReadRow(dst []float32, j int) { w.Row(dst, j) }
func (w packedWeight) ReadGroups(j int, q []int8, factor, least []uint16) (scale float32) {
	return w.Groups(j, q, factor, least)
}

// Rounded returns space for keys and values in the precision of the weights, in int8 for weights of 4 bits, or nil for
// float32.
func (w packedWeight) Rounded() engine.Rounded {
	if p := w.Precision(); p != kernel.Float32 && !w.exact {
		return &roundedRows{precision: min(p, kernel.Int8)}
	}
	return nil
}

// roundedRows holds keys, and perhaps values, in another precision.
type roundedRows struct {
	precision kernel.Precision
	rows      []kernel.RoundedRows // none, or keys, or keys and values
}

func (r *roundedRows) Empty(kinds, rows, headDim int) engine.Rounded {
	if rows == 0 {
		return &roundedRows{precision: r.precision}
	}
	return &roundedRows{r.precision, kernel.MakeRoundedRows(r.precision, kinds, rows, headDim)}
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
