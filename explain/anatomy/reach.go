package anatomy

import (
	"math"
	"slices"
)

// Reach returns, for each channel whose kernel is not zero, the smallest lag up to which a share of its energy Σ_j
// K[j]² lies: how far back the channel looks. The lags are in ascending order.
func (k *Kernel) Reach(share float64) []float64 {
	var all []float64
	for c := range k.Channels {
		left := k.left(c)
		if left == nil {
			continue
		}
		lag := 0
		for lag+1 < len(left) && left[lag+1] > 1-share {
			lag++
		}
		all = append(all, float64(lag))
	}
	slices.Sort(all)
	return all
}

// Left returns, for each lag, the part of the kernels' energy at this lag and further back. It is the mean over the
// channels whose kernels are not zero, and nil if there are none. It is 1 at lag 0.
func (k *Kernel) Left() []float64 {
	var mean []float64
	n := 0.0
	for c := range k.Channels {
		left := k.left(c)
		if left == nil {
			continue
		}
		if mean == nil {
			mean = make([]float64, k.Taps)
		}
		n++
		for j, x := range left {
			mean[j] += (x - mean[j]) / n
		}
	}
	return mean
}

// left returns, for each lag, the part of the energy of one channel's kernel at this lag and further back. It returns
// nil if the kernel is zero or has too large numbers.
func (k *Kernel) left(c int) []float64 {
	left, sum := make([]float64, k.Taps), 0.0
	for j := k.Taps - 1; j >= 0; j-- {
		x := float64(k.K[j*k.Channels+c])
		sum += x * x
		left[j] = sum
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil
	}
	for j := range left {
		left[j] /= sum
	}
	return left
}
