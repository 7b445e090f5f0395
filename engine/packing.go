package engine

import "github.com/hippo-ssm/hippo/tensor"

// Packing stores weight matrices (n, k) of Linear, LinearCrossEntropy and Embedding in the form in which products read
// them. Such weights cannot have a gradient.
type Packing interface {
	// Pack returns the packed forms of matrices, for tensor.Tensor.SetPacked. It needs little additional memory.
	Pack(p Precision, as PackAs, ms ...Matrix) []tensor.Packed
	// PackGroups returns the packed forms of matrices that are already quantized to integers, without rounding. The
	// precision is Int8, Int4 or Int4Min.
	PackGroups(p Precision, ms ...Groups) []tensor.Packed
}

// PackAs determines how a packed matrix is rounded.
type PackAs int

// The purposes for which weights are packed.
const (
	PackRounded PackAs = iota // for inference: rounds weights, keys and values, and the inputs of integer products
	PackExact                 // bfloat16 weights without rounding: all results are those of float32
	// rounded, while other weights train: results are those of float32 with the rounded weights
	PackFrozen
)

// Matrix is a matrix of weights (N, K) that need not be in memory. Rows calls use once with the elements of rows j to
// j+n-1, row-major; use must not keep them. Several goroutines may call Rows, and may request a row more than once.
type Matrix struct {
	N, K int
	Rows func(j, n int, use func(x []float32))
	// BF16, if not nil, calls use with the same elements as bfloat16 numbers of two bytes, the lower byte first. It is
	// faster if the weights are stored in that format.
	BF16 func(j, n int, use func(x []byte))
}

// PackTensors replaces the elements of weight matrices by their packed form. They cannot be restored.
func PackTensors(b Packing, p Precision, as PackAs, ws ...*tensor.Tensor) {
	ms := make([]Matrix, len(ws))
	for i, w := range ws {
		x, k := w.Elements(), w.Dim(-1)
		if w.Dims() != 2 || len(x) != w.Len() {
			panic("engine.PackTensors: found " + w.String() + ", want a matrix with its elements")
		}
		ms[i] = Matrix{N: w.Dim(0), K: k, Rows: func(j, n int, use func([]float32)) { use(x[j*k:][:n*k]) }}
	}
	for i, packed := range b.Pack(p, as, ms...) {
		ws[i].SetPacked(packed)
	}
}
