package engine

import (
	"fmt"
	"strings"
)

// Precision is the precision to which numbers are rounded in matrix products. On a tape that trains it is Float32 or
// BF16, and applies to the operands of Linear, Attention and the head, forward and backward. In a model packed for
// inference it applies to the weights (see Pack). Sums, norms, SSM parameters, states, softmax, convolutions and the
// loss are always float32.
type Precision int

// The precisions.
const (
	Float32 Precision = iota
	BF16              // bfloat16: the range of float32 with 8 bits of precision, relative error 1/256 at most
	Int8              // for inference: integers of 8 bits, with a factor for each 32 weights or inputs
	Int4              // like Int8, but with weights of 4 bits
	Int4Min           // like Int4, but with a least number besides each factor: 5 bits a weight in all
)

var precisionNames = [...]string{Float32: "float32", BF16: "bf16", Int8: "int8", Int4: "int4", Int4Min: "int4min"}

// String returns the name of p: float32, bf16, int8, int4, int4min.
func (p Precision) String() string { return precisionNames[p] }

// ParsePrecision returns the precision of that name: float32, bf16, int8, int4, int4min.
func ParsePrecision(name string) (Precision, error) {
	for p, n := range precisionNames {
		if n == name {
			return Precision(p), nil
		}
	}
	return Float32, fmt.Errorf("found the precision %q, want one of %s", name, strings.Join(precisionNames[:], ", "))
}
