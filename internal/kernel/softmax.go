package kernel

import "math"

// LogSumExp returns log Σ e^x of one row, guarded by the row's maximum.
func LogSumExp(x []float32) float32 {
	if cpu != generic {
		hi, sum := float32(math.Inf(-1)), 0.0
		for lo := 0; lo < len(x); lo += callLength {
			hi = max(hi, vecLargest(min(callLength, len(x)-lo), &x[lo]))
		}
		for lo := 0; lo < len(x); lo += callLength {
			sum += vecSumExp(min(callLength, len(x)-lo), &x[lo], hi)
		}
		return hi + float32(math.Log(sum))
	}
	hi := x[0]
	for _, v := range x[1:] {
		if v > hi {
			hi = v
		}
	}
	var sum float64
	for _, v := range x {
		sum += float64(Exp(v - hi))
	}
	return hi + float32(math.Log(sum))
}

// CrossEntropyGrad turns one row of logits into the gradient of its cross-entropy: (softmax(x) - onehot(target))·scale,
// where lse is the row's LogSumExp.
func CrossEntropyGrad(x []float32, lse float32, target int, scale float32) {
	ExpShift(x, lse, scale)
	x[target] -= scale
}
