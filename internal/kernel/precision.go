package kernel

// Precision is the format of the numbers of a Packed matrix, or the format to which the operands of a product are
// rounded.
type Precision int

const (
	Float32 Precision = iota
	BF16              // bfloat16, rounded to the nearest: 8 bits of mantissa
	Int8              // integers from -127 to 127 with a factor for each 32 of a row; only for a Packed matrix
	Int4              // integers from -8 to 7 with a factor for each 32 of a row; only for a Packed matrix
	Int4Min           // integers from 0 to 15 with a factor and a least number for each 32; only for a Packed matrix
)

var precisionNames = [...]string{Float32: "float32", BF16: "bf16", Int8: "int8", Int4: "int4", Int4Min: "int4min"}

// String returns the name of p, as flags and files write it.
func (p Precision) String() string { return precisionNames[p] }

// Gemm computes Gemm or, at BF16, GemmBF16.
func (p Precision) Gemm(x Product) {
	x.bf16 = p == BF16
	x.compute(x.workers())
}

// GemmInline computes GemmInline or, at BF16, GemmBF16Inline.
func (p Precision) GemmInline(x Product) {
	x.bf16 = p == BF16
	x.compute(1)
}
