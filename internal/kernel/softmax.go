package kernel

import "math"

// LogSumExp returns log Σ e^x of one row. It subtracts the row's maximum first, so that nothing overflows.
func LogSumExp(x []float32) float32 {
	hi, sum := SumExp(x)
	return hi + float32(math.Log(sum))
}

// Largest returns the largest element, or -Inf if there is none. found reports whether one is NaN; then the largest is
// unspecified.
func Largest(x []float32) (hi float32, found bool) {
	hi = float32(math.Inf(-1))
	if !cpu.has(largestCode) {
		for _, v := range x {
			if found = found || v != v; v > hi {
				hi = v
			}
		}
		return hi, found
	}
	for lo := 0; lo < len(x); lo += callLength {
		hi = max(hi, vecLargest(min(callLength, len(x)-lo), &x[lo]))
	}
	size := largest(x)
	return hi, size != size
}

// SumExp returns the largest element hi of one row, which must not be empty, and Σ e^(x-hi), summed in float64. The
// relative error of the sum is below 1e-6. It is NaN if the row contains NaN or +Inf or nothing above -Inf; hi may then
// be anything.
func SumExp(x []float32) (hi float32, sum float64) {
	if cpu.has(largestCode | sumExpCode) {
		hi = float32(math.Inf(-1))
		for lo := 0; lo < len(x); lo += callLength {
			hi = max(hi, vecLargest(min(callLength, len(x)-lo), &x[lo]))
		}
		for lo := 0; lo < len(x); lo += callLength {
			sum += vecSumExp(min(callLength, len(x)-lo), &x[lo], hi)
		}
		return hi, sum
	}
	hi = x[0]
	for _, v := range x[1:] {
		if v > hi {
			hi = v
		}
	}
	for _, v := range x {
		sum += float64(Exp(v - hi))
	}
	return hi, sum
}

// CrossEntropyGrad turns one row of logits into the gradient of its cross-entropy: (softmax(x) - onehot(target))·scale,
// where lse is the row's LogSumExp.
func CrossEntropyGrad(x []float32, lse float32, target int, scale float32) {
	ExpShift(x, lse, scale)
	x[target] -= scale
}

// Softmax replaces one row x, which must not be empty, by softmax(scale·x) and returns log Σ e^(scale·x). The scale is
// positive.
func Softmax(x []float32, scale float32) (lse float32) {
	lse, inverse := SoftmaxTimes(x, scale)
	Scale(x, inverse)
	return lse
}

// SoftmaxTimes is Softmax without the final multiplication: x must still be multiplied by inverse. Before that, the
// largest element is 1.
func SoftmaxTimes(x []float32, scale float32) (lse, inverse float32) {
	if !cpu.has(largestCode | softmaxExpCode) {
		Scale(x, scale)
		hi, sum := SumExp(x)
		ExpShift(x, hi, 1)
		return hi + float32(math.Log(sum)), float32(1 / sum)
	}
	hi, sum := float32(math.Inf(-1)), 0.0
	for lo := 0; lo < len(x); lo += callLength {
		hi = max(hi, vecLargest(min(callLength, len(x)-lo), &x[lo]))
	}
	hi *= scale
	for lo := 0; lo < len(x); lo += callLength {
		sum += vecSoftmaxExp(min(callLength, len(x)-lo), &x[lo], scale, hi)
	}
	return hi + float32(math.Log(sum)), float32(1 / sum)
}

// SoftmaxAgain is Softmax for a row whose lse is known.
func SoftmaxAgain(x []float32, scale, lse float32) {
	if cpu.has(expScaledCode) {
		for lo := 0; lo < len(x); lo += callLength {
			vecExpScaled(min(callLength, len(x)-lo), &x[lo], scale, lse)
		}
		return
	}
	Scale(x, scale)
	ExpShift(x, lse, 1)
}

// SoftmaxGrad replaces dp, the gradient of the weights p = softmax(scale·x), by the gradient of x, given delta = Σ
// p·dp: dp ← p·(dp - delta)·scale.
func SoftmaxGrad(dp, p []float32, delta, scale float32) {
	p = p[:len(dp)]
	if cpu.has(softmaxGradCode) {
		for lo := 0; lo < len(dp); lo += callLength {
			vecSoftmaxGrad(min(callLength, len(dp)-lo), &dp[lo], &p[lo], delta, scale)
		}
		return
	}
	for i, v := range p {
		dp[i] = v * (dp[i] - delta) * scale
	}
}
