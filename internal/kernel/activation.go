package kernel

import "math"

// Function is an activation function.
type Function int

// The activation functions.
const (
	FuncGelu      Function = iota // ½x(1+tanh(√(2/π)(x+0.044715x³))), the GELU of the released H3 models
	FuncGeluErf                   // xΦ(x) = ½x(1+erf(x/√2)), the GELU of S4D
	FuncSiLU                      // x/(1+e^-x)
	FuncSigmoid                   // 1/(1+e^-x)
	FuncTanh                      // tanh x
	FuncSoftplus                  // log(1+e^x)
	FuncSin                       // sin x
	FuncELU1                      // elu(x)+1: x+1 for x > 0, otherwise e^x (arXiv:2006.16236)
	FuncReLU2                     // max(x, 0)² (arXiv:2109.08668)
	FuncHeavyTail                 // 1+x for x ≥ 0, otherwise 1/(1-x): the A of Mamba-3
)

// activations lists the functions and their derivatives: as portable code for one element, and as kernels for slices
// that are not empty. A function that is used for few elements has no kernels.
var activations = [...]struct {
	value, slope func(x float32) float32
	into         func(n int, y, x *float32)
	intoCode     level
	gradMul      func(n int, dy, x *float32)
	gradMulCode  level
}{
	FuncGelu:      {Gelu, GeluGrad, vecGelu, geluCode, vecGeluGradMul, geluGradMulCode},
	FuncGeluErf:   {GeluErf, GeluErfGrad, vecGeluErf, geluErfCode, vecGeluErfGradMul, geluErfGradMulCode},
	FuncSiLU:      {SiLU, SiLUGrad, vecSilu, siluCode, vecSiluGradMul, siluGradMulCode},
	FuncSigmoid:   {Sigmoid, SigmoidGrad, vecSigmoid, sigmoidCode, vecSigmoidGradMul, sigmoidGradMulCode},
	FuncTanh:      {Tanh, TanhGrad, vecTanh, tanhCode, vecTanhGradMul, tanhGradMulCode},
	FuncSoftplus:  {Softplus, Sigmoid, vecSoftplus, softplusCode, vecSoftplusGradMul, softplusGradMulCode},
	FuncSin:       {Sin, Cos, vecSin, sinCode, vecSinGradMul, sinGradMulCode},
	FuncELU1:      {ELU1, ELU1Grad, vecElu1, elu1Code, vecElu1GradMul, elu1GradMulCode},
	FuncReLU2:     {ReLU2, ReLU2Grad, vecRelu2, relu2Code, vecRelu2GradMul, relu2GradMulCode},
	FuncHeavyTail: {HeavyTail, HeavyTailGrad, nil, noCode, nil, noCode},
}

// Into computes y = f(x) element by element.
func (f Function) Into(y, x []float32) {
	y = y[:len(x)]
	if cpu.has(activations[f].intoCode) {
		for lo := 0; lo < len(x); lo += callLength {
			activations[f].into(min(callLength, len(x)-lo), &y[lo], &x[lo])
		}
		return
	}
	for i, v := range x {
		y[i] = activations[f].value(v)
	}
}

// GradMul computes dy *= f'(x) element by element.
func (f Function) GradMul(dy, x []float32) {
	dy = dy[:len(x)]
	if cpu.has(activations[f].gradMulCode) {
		for lo := 0; lo < len(x); lo += callLength {
			activations[f].gradMul(min(callLength, len(x)-lo), &dy[lo], &x[lo])
		}
		return
	}
	for i, v := range x {
		dy[i] *= activations[f].slope(v)
	}
}

const (
	geluA = 0.7978845608028654 // √(2/π)
	geluB = 0.044715
)

// Gelu returns the tanh approximation ½x(1+tanh(√(2/π)(x+0.044715x³))), the GELU of the released H3 models. It is
// computed as x·σ(z) with z = 2√(2/π)(x+0.044715x³), in which nothing cancels.
func Gelu(x float32) float32 {
	return x / (1 + Exp(-2*geluA*(x+float32(geluB*x*x*x))))
}

// GeluGrad returns the derivative of Gelu, σ(z) + x·z'·σ'(z). With e = e^-|z| and q = 1/(1+e), σ(z) is q for z ≥ 0 and
// eq below, and σ'(z) is e·q².
func GeluGrad(x float32) float32 {
	z := 2 * geluA * (x + float32(geluB*x*x*x))
	slope := 2 * geluA * (1 + float32(3*geluB*x*x))
	e := Exp(-max(z, -z))
	q := 1 / (1 + e)
	sigmoid := q
	if x < 0 {
		sigmoid = e * q
	}
	return sigmoid + float32(e*q*q*slope*x)
}

// GeluErf returns the exact GELU ½x(1+erf(x/√2)).
func GeluErf(x float32) float32 {
	return float32(0.5 * float64(x) * (1 + math.Erf(float64(x)/math.Sqrt2)))
}

// GeluErfGrad returns the derivative of GeluErf.
func GeluErfGrad(x float32) float32 {
	v := float64(x)
	return float32(0.5*(1+math.Erf(v/math.Sqrt2)) + v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi))
}

// Sigmoid returns 1/(1+e^-x).
func Sigmoid(x float32) float32 { return 1 / (1 + Exp(-x)) }

// SigmoidGrad returns the derivative σ' of Sigmoid, or 0 if it is less than 2^-125.
func SigmoidGrad(x float32) float32 {
	_, slope := sigmoidSlope(x)
	return slope
}

// sigmoidSlope returns σ(x) and σ'(x). With e = e^-|x| and q = 1/(1+e), σ is q for x ≥ 0 and eq below, and σ' is eq²:
// nothing cancels. e is set to 0 if it is less than 2^-125.
func sigmoidSlope(x float32) (s, slope float32) {
	e := Exp(-max(x, -x))
	if e < 0x1p-125 {
		e = 0
	}
	q := 1 / (1 + e)
	s = q
	if x < 0 {
		s = e * q
	}
	return s, e * q * q
}

// SiLU returns x·σ(x), also called swish (arXiv:1710.05941).
func SiLU(x float32) float32 { return x * Sigmoid(x) }

// SiLUGrad returns the derivative of SiLU, σ + xσ'.
func SiLUGrad(x float32) float32 {
	s, slope := sigmoidSlope(x)
	return s + float32(x*slope)
}

// Tanh returns tanh x.
func Tanh(x float32) float32 { return float32(math.Tanh(float64(x))) }

// TanhGrad returns the derivative of Tanh, 1-tanh² = 4σ'(2x).
func TanhGrad(x float32) float32 { return 4 * SigmoidGrad(2*x) }

// Softplus returns log(1+e^x) = max(x, 0) + log(1+e^-|x|), which neither overflows nor loses small values.
func Softplus(x float32) float32 {
	return max(x, 0) + float32(math.Log1p(float64(Exp(-max(x, -x)))))
}

// ELU1 returns elu(x)+1 = max(x, 0) + e^min(x, 0).
func ELU1(x float32) float32 { return max(x, 0) + Exp(min(x, 0)) }

// ELU1Grad returns the derivative of ELU1, or 0 if it is less than 2^-125.
func ELU1Grad(x float32) float32 {
	e := Exp(min(x, 0))
	if e < 0x1p-125 {
		e = 0
	}
	return e
}

// sineLimit is the largest argument of Sin and Cos, the same as in internal/asm. They treat a larger argument as 0:
// float32 cannot represent its number of half turns anyway.
const sineLimit = 1 << 22

// Sin returns sin x. At levels above generic the error is below 2e-7 up to |x| = 10⁵.
func Sin(x float32) float32 { return float32(math.Sin(limitTurns(x))) }

// Cos returns cos x, the derivative of Sin, with the same error.
func Cos(x float32) float32 { return float32(math.Cos(limitTurns(x))) }

func limitTurns(x float32) float64 {
	if max(x, -x) > sineLimit {
		x *= 0 // NaN for an infinity
	}
	return float64(x)
}

// ReLU2 returns max(x, 0)².
func ReLU2(x float32) float32 { return max(x, 0) * max(x, 0) }

// ReLU2Grad returns the derivative of ReLU2, 2 max(x, 0).
func ReLU2Grad(x float32) float32 { return 2 * max(x, 0) }

// HeavyTail returns 1+x for x ≥ 0 and 1/(1-x) below: positive and smooth like e^x, but it neither grows nor vanishes
// fast.
func HeavyTail(x float32) float32 {
	if x < 0 {
		return 1 / (1 - x)
	}
	return 1 + x
}

// HeavyTailGrad returns the derivative of HeavyTail.
func HeavyTailGrad(x float32) float32 {
	if x < 0 {
		y := 1 / (1 - x)
		return y * y
	}
	return 1
}
