package mixer

import (
	"sync"

	"github.com/hippo-ssm/hippo/tensor"
)

// A mixer is created from a configuration that may come from anywhere, before its sizes have been compared with a file
// of weights or with the memory of the machine. So New must cost next to nothing, whatever the sizes: parameters have
// shapes and no values, and constants are created on first use.

// zeros returns a constant of zeros.
func zeros(shape ...int) func() *tensor.Tensor {
	return sync.OnceValue(func() *tensor.Tensor { return tensor.New(shape...) })
}

// ones returns a constant of ones.
func ones(n int) func() *tensor.Tensor { return constant(1, n) }

// constant returns a constant vector of n equal numbers.
func constant(x float64, n int) func() *tensor.Tensor {
	return sync.OnceValue(func() *tensor.Tensor { return vectorOf(n, func(int) float32 { return float32(x) }) })
}

// vectorOf returns a vector of n values.
func vectorOf(n int, value func(i int) float32) *tensor.Tensor {
	x := make([]float32, n)
	for i := range x {
		x[i] = value(i)
	}
	return tensor.FromSlice(x, n)
}

// must returns v. It panics on an error, which New has ruled out by checking the arguments.
func must[T any](v T, err error) T {
	if err != nil {
		panic("mixer: " + err.Error())
	}
	return v
}
