package engine

import (
	"fmt"
	"strings"
)

// Precision is what numbers are rounded to in matrix products. On a tape that trains, Float32 or BF16, it is that of
// the operands of Linear, Attention and the head, forward and backward; of a model packed for inference it is that of
// the weights (see Pack). Sums, norms, SSM parameters, states, softmax, convolutions and the loss are float32 always.
type Precision int

// The precisions.
const (
	Float32 Precision = iota
	BF16              // bfloat16: the range of float32 with 8 bits of precision, relative error 1/256 at most
	Int8              // for inference: integers of 8 bits, with a factor for each 32 of weights and of inputs
	Int4              // as Int8, but with weights of 4 bits
	Int4Min           // as Int4, with a least number besides each factor: 5 bits a weight in all
)

var precisionNames = [...]string{Float32: "float32", BF16: "bf16", Int8: "int8", Int4: "int4", Int4Min: "int4min"}

// String is the name of p: float32, bf16, int8, int4, int4min.
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
