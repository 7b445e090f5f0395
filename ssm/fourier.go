package ssm

import (
	"math"
	"math/cmplx"
)

// FourierTransform returns F(freq) = ∫ f(t) exp(-2πi freq t) dt over from ≤ t ≤ to, where f must be zero elsewhere. It
// uses Gauss's rule on panels of at most a quarter of a period and a quarter of the interval.
func FourierTransform(f func(t float64) float64, from, to, freq float64) complex128 {
	panels := 4 * int(math.Ceil(1+math.Abs(freq)*(to-from)))
	var sum complex128
	eachGaussPoint(from, to, panels, func(t, weight float64) {
		sum += complex(weight*f(t), 0) * cmplx.Exp(complex(0, -2*math.Pi*freq*t))
	})
	return sum
}

// BoxTransform returns the Fourier transform of a box of height 1 between -width/2 and width/2: sin(π freq width)/(π
// freq). It is the width at 0, and zero at every other multiple of 1/width. The narrower the box, the wider its
// transform.
func BoxTransform(width, freq float64) float64 {
	if freq == 0 {
		return width
	}
	return math.Sin(math.Pi*freq*width) / (math.Pi * freq)
}

// SineTransform returns the Fourier transform of sin(2π tone t) restricted to -width/2 ≤ t ≤ width/2:
//
//	(box(freq - tone) - box(freq + tone)) / 2i,  box the [BoxTransform] of that width
//
// The restriction multiplies by a box, so each of the two lines of a sine becomes the transform of a box around it. As
// width grows, these tend to lines again: peaks of height width/2 and width 1/width at ±tone.
func SineTransform(tone, width, freq float64) complex128 {
	return complex(BoxTransform(width, freq-tone)-BoxTransform(width, freq+tone), 0) / 2i
}
