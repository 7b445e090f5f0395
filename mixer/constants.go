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

// ones is a constant of ones.
func ones(n int) func() *tensor.Tensor { return constant(1, n) }

// constant is a vector of n equal numbers.
func constant(x float64, n int) func() *tensor.Tensor {
	return sync.OnceValue(func() *tensor.Tensor { return vectorOf(n, func(int) float32 { return float32(x) }) })
}

// vectorOf is a vector of n values.
func vectorOf(n int, value func(i int) float32) *tensor.Tensor {
	x := make([]float32, n)
	for i := range x {
		x[i] = value(i)
	}
	return tensor.FromSlice(x, n)
}

// must is v of a computation that New has checked the arguments of.
func must[T any](v T, err error) T {
	if err != nil {
		panic("mixer: " + err.Error())
	}
	return v
}
