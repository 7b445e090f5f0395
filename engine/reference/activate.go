package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Activate applies a function to every element:
//
//	y = a(x)
//	dx = a'(x)·dy
func (eng *Engine) Activate(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	y := eng.like(x)
	xs, ys := eng.values(x), eng.values(y)
	for i, v := range xs {
		ys[i] = activate(a, v)
	}
	eng.record("Activate", list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		for i, v := range xs {
			dx[i] += slope(a, v) * dy[i]
		}
	})
	return y
}

// activate returns a(x), with the Gaussian error linear unit of arXiv:1606.08415 in its two forms.
func activate(a engine.Activation, x float64) float64 {
	switch a {
	case engine.GeluTanh:
		return x / 2 * (1 + math.Tanh(geluAngle(x)))
	case engine.GeluErf:
		return x / 2 * (1 + math.Erf(x/math.Sqrt2))
	case engine.SiLU:
		return x * sigmoid(x)
	case engine.Sigmoid:
		return sigmoid(x)
	case engine.Tanh:
		return math.Tanh(x)
	case engine.SquaredReLU:
		return math.Max(x, 0) * math.Max(x, 0)
	case engine.HeavyTail:
		return 1/(1-math.Min(x, 0)) + math.Max(x, 0)
	case engine.Softplus: // log(1+e^x) = x + log(1+e^-x); the form is used whose exponential is finite
		return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	}
	return x
}

// slope returns a'(x).
func slope(a engine.Activation, x float64) float64 {
	switch a {
	case engine.GeluTanh:
		t := math.Tanh(geluAngle(x))
		return (1+t)/2 + x/2*(1-t*t)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
	case engine.GeluErf:
		return (1+math.Erf(x/math.Sqrt2))/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	case engine.SiLU:
		return sigmoid(x) * (1 + x*(1-sigmoid(x)))
	case engine.Sigmoid:
		return sigmoid(x) * (1 - sigmoid(x))
	case engine.Tanh:
		return 1 - math.Tanh(x)*math.Tanh(x)
	case engine.Softplus:
		return sigmoid(x)
	case engine.SquaredReLU:
		return 2 * math.Max(x, 0)
	case engine.HeavyTail:
		return 1 / (1 - math.Min(x, 0)) / (1 - math.Min(x, 0))
	}
	return 1
}

// geluAngle returns √(2/π)(x+0.044715x³).
func geluAngle(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }
