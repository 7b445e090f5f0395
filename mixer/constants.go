package mixer

import (
	"sync"

	"github.com/hippo-ssm/hippo/tensor"
)

// A mixer is made from a configuration that somebody sent, before its sizes have been compared with a file of weights
// or with the memory of the machine. So what New does costs next to nothing, whatever the sizes: parameters have shapes
// and no values, and constants are made when they are first used.

// zeros is a constant of zeros.
func zeros(shape ...int) func() *tensor.Tensor {
	return sync.OnceValue(func() *tensor.Tensor { return tensor.New(shape...) })
}

// must returns the result of a computation that cannot fail, as New has checked its arguments.
func must[T any](v T, err error) T {
	if err != nil {
		panic("mixer: " + err.Error())
	}
	return v
}
