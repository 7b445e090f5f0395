package task

import "math"

// halfBand holds half of a symmetric low-pass filter with its cutoff at a quarter of the sampling rate. Tap k ≠ 0 is
// sin(πk/2)/(πk) times a Blackman window over -32..32, which is 0 for even k. These are the taps 1, 3, ..., 31. Tap 0
// is ½, and all taps sum to 1. Above 0.3 of the rate, less than a thousandth passes.
var halfBand = func() (taps [16]float64) {
	sum := 0.0
	for i := range taps {
		k := float64(2*i + 1)
		window := 0.42 + 0.5*math.Cos(math.Pi*k/32) + 0.08*math.Cos(math.Pi*k/16)
		taps[i] = math.Sin(math.Pi*k/2) / (math.Pi * k) * window
		sum += taps[i]
	}
	for i := range taps {
		taps[i] *= 0.25 / sum // both sides sum to ½
	}
	return taps
}()

// lowPass appends every step-th sample of x to dst, starting with the first, after halfBand has removed the frequencies
// that half the rate cannot represent. It adds no delay. x counts as 0 beyond its ends. With a step of 2, the result is
// x at half the rate.
func lowPass(dst, x []float32, step int) []float32 {
	at := func(i int) float64 {
		if i < 0 || i >= len(x) {
			return 0
		}
		return float64(x[i])
	}
	for i := 0; i < len(x); i += step {
		sum := at(i) / 2
		for j, tap := range halfBand {
			sum += tap * (at(i-2*j-1) + at(i+2*j+1))
		}
		dst = append(dst, float32(sum))
	}
	return dst
}
