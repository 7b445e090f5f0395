package cpu

import (
	"github.com/hippo-ssm/hippo/tensor"
)

// filled returns a leaf whose elements are all v.
func filled(v float32, shape ...int) *tensor.Tensor {
	x := tensor.New(shape...)
	for i := range x.Data() {
		x.Data()[i] = v
	}
	x.SetNeedsGrad(true)
	return x
}
