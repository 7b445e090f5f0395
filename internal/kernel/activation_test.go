package kernel

import (
	"math"
	"slices"
	"testing"
)

// functions64 holds the activation functions and their derivatives in float64.
var functions64 = map[Function]struct {
	name         string
	value, slope func(x float64) float64
}{
	FuncGelu: {"gelu", func(x float64) float64 { return x * sigmoid64(2*geluArg64(x)) }, func(x float64) float64 {
		th := math.Tanh(geluArg64(x))
		return 0.5*(1+th) + 0.5*x*(1-th*th)*geluA*(1+3*geluB*x*x)
	}},
	FuncGeluErf: {"gelu_erf", func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) },
		func(x float64) float64 {
			return 0.5*math.Erfc(-x/math.Sqrt2) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		}},
	FuncSiLU: {"silu", func(x float64) float64 { return x * sigmoid64(x) }, func(x float64) float64 {
		return sigmoid64(x) * (1 + x*sigmoid64(-x))
	}},
	FuncSigmoid: {"sigmoid", sigmoid64, func(x float64) float64 { return sigmoid64(x) * sigmoid64(-x) }},
	FuncTanh:    {"tanh", math.Tanh, func(x float64) float64 { return 1 / (math.Cosh(x) * math.Cosh(x)) }},
	FuncSoftplus: {"softplus", func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) },
		sigmoid64},
	FuncSin: {"sin", func(x float64) float64 { return math.Sin(limited(x)) },
		func(x float64) float64 { return math.Cos(limited(x)) }},
	FuncELU1: {"elu1", func(x float64) float64 { return max(x, 0) + math.Exp(min(x, 0)) },
		func(x float64) float64 { return math.Exp(min(x, 0)) }},
	FuncReLU2: {"relu2", func(x float64) float64 { return max(x, 0) * max(x, 0) },
		func(x float64) float64 { return 2 * max(x, 0) }},
	FuncHeavyTail: {"heavy_tail", func(x float64) float64 { return 1/(1-min(x, 0)) + max(x, 0) },
		func(x float64) float64 { return 1 / (1 - min(x, 0)) / (1 - min(x, 0)) }},
}

// limited returns the argument that sine and cosine use for x.
func limited(x float64) float64 {
	if math.Abs(x) > sineLimit {
		return 0 * x
	}
	return x
}

// activationKernels returns the rows of the table pointwise for the activation functions.
func activationKernels() []pointwiseKernel {
	var rows []pointwiseKernel
	for f := range Function(len(activations)) {
		ref := functions64[f]
		rows = append(rows,
			pointwiseKernel{ref.name, 2, func(a [][]float32) { f.Into(a[0], a[1]) },
				func(v []float64) []float64 { return []float64{ref.value(v[1])} }},
			pointwiseKernel{ref.name + " gradient", 2, func(a [][]float32) { f.GradMul(a[0], a[1]) },
				func(v []float64) []float64 { return []float64{v[0] * ref.slope(v[1])} }})
	}
	return rows
}

// TestActivations checks functions and derivatives against float64 over all of float32, at every level. Errors are
// relative to max(1, |x|, |f(x)|), since most functions are about x on one side and tiny on the other. Softplus,
// sigmoid, tanh, elu+1, the squared ReLU and the heavy tail must also be exact for tiny results.
func TestActivations(t *testing.T) {
	var x []float32
	everyFloat(1e15, func(v float32) { x = append(x, v) })
	ones := make([]float32, len(x))
	for i := range ones {
		ones[i] = 1
	}
	atLevels(t, func(t *testing.T) {
		for f := range Function(len(activations)) {
			ref := functions64[f]
			y, dx := make([]float32, len(x)), slices.Clone(ones)
			f.Into(y, x)
			f.GradMul(dx, x)
			var value, slope, relative worstError
			for i, v := range x {
				want := ref.value(float64(v))
				size := max(1, math.Abs(float64(v)), math.Abs(want))
				value.see(v, math.Abs(float64(y[i])-want)/size)
				slope.see(v, math.Abs(float64(dx[i])-ref.slope(float64(v)))/size)
				if math.Abs(want) > 1e-36 {
					relative.see(v, math.Abs(float64(y[i])-want)/math.Abs(want))
				}
			}
			value.check(t, ref.name, 5e-7)
			slope.check(t, ref.name+", derivative", 5e-7)
			if f == FuncSoftplus || f == FuncSigmoid || f == FuncTanh || f == FuncELU1 ||
				f == FuncReLU2 || f == FuncHeavyTail {
				relative.check(t, ref.name+", relative", 3e-6)
			}
		}
	})
}

// TestSine checks the absolute error of sine and cosine against float64, in the documented range.
func TestSine(t *testing.T) {
	var x []float32
	everyFloat(1e5, func(v float32) { x = append(x, v) })
	atLevels(t, func(t *testing.T) {
		y, dx := make([]float32, len(x)), make([]float32, len(x))
		for i := range dx {
			dx[i] = 1
		}
		FuncSin.Into(y, x)
		FuncSin.GradMul(dx, x)
		var sine, cosine worstError
		for i, v := range x {
			sine.see(v, math.Abs(float64(y[i])-math.Sin(float64(v))))
			cosine.see(v, math.Abs(float64(dx[i])-math.Cos(float64(v))))
		}
		sine.check(t, "sin", 2e-7)
		cosine.check(t, "cos", 2e-7)
	})
}
