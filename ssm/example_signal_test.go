package ssm_test

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/hippo-ssm/hippo/ssm"
)

// The density of a sum is the convolution of the densities: 7 is the likeliest sum of two dice, 6 of 36 throws.
func ExampleConvolveFull() {
	die := slices.Repeat([]float64{1.0 / 6}, 6)
	for i, p := range ssm.ConvolveFull(die, die) {
		fmt.Printf("P(%d) = %.0f/36\n", i+2, 36*p)
	}
	// Output:
	// P(2) = 1/36
	// P(3) = 2/36
	// P(4) = 3/36
	// P(5) = 4/36
	// P(6) = 5/36
	// P(7) = 6/36
	// P(8) = 5/36
	// P(9) = 4/36
	// P(10) = 3/36
	// P(11) = 2/36
	// P(12) = 1/36
}

// The sum of many dice is close to normal, even if each is loaded.
func ExampleConvolvePower() {
	loaded := []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.5}
	for _, n := range []int{1, 4, 64} {
		p := ssm.ConvolvePower(loaded, n)
		fmt.Printf("%2d dice: likeliest sum %d\n", n, n+slices.Index(p, slices.Max(p)))
	}
	// Output:
	//  1 dice: likeliest sum 6
	//  4 dice: likeliest sum 19
	// 64 dice: likeliest sum 289
}

// Convolution with a delta changes nothing. Convolution with a shifted delta delays the signal.
func ExampleDelta() {
	u := []float64{3, 1, 4, 1, 5}
	fmt.Println(ssm.Convolve(ssm.Delta(0, 5), u))
	fmt.Println(ssm.Convolve(ssm.Delta(2, 5), u))
	// Output:
	// [3 1 4 1 5]
	// [0 0 3 1 4]
}

// A convolution is a matrix that is constant along its diagonals.
func ExampleToeplitz() {
	t := ssm.Toeplitz([]float64{1, 2, 3}, 5)
	for i := range 5 {
		fmt.Println(t.RawRowView(i))
	}
	// Output:
	// [1 0 0 0 0]
	// [2 1 0 0 0]
	// [3 2 1 0 0]
	// [0 3 2 1 0]
	// [0 0 3 2 1]
}

// Without padding the product of transforms is the circular convolution: the end wraps around.
func ExampleConvolveFFT() {
	a, b := []float64{1, 2, 3}, []float64{1, 1, 1}
	for _, v := range ssm.ConvolveFFT(a, b) {
		fmt.Printf("%.0f ", v)
	}
	fmt.Println("linear")
	for _, v := range ssm.ConvolveCircular(a, b) {
		fmt.Printf("%.0f ", v)
	}
	fmt.Println("circular")
	// Output:
	// 1 3 6 5 3 linear
	// 6 6 6 circular
}

// A cosine of 2 turns in 8 samples is two lines, at 2 and at 8 - 2.
func ExampleDFT() {
	x := make([]complex128, 8)
	for j := range x {
		x[j] = complex(math.Cos(2*math.Pi*2*float64(j)/8), 0)
	}
	for _, v := range ssm.DFT(x) {
		fmt.Printf("%.0f ", cmplx.Abs(v))
	}
	// Output: 0 0 4 0 0 0 4 0
}

// The transform of a box decays slowly and is zero at the multiples of one over its width.
func ExampleBoxTransform() {
	for _, f := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Printf("%.2f: %.4f\n", f, ssm.BoxTransform(2, f))
	}
	// Output:
	// 0.00: 2.0000
	// 0.25: 1.2732
	// 0.50: 0.0000
	// 0.75: -0.4244
	// 1.00: -0.0000
}

// Four polynomials represent a straight line exactly, also outside the interval. 41 waves approximate it, and repeat.
func ExampleProject() {
	line := func(x float64) float64 { return x }
	legendre := ssm.Project(ssm.Legendre, 4, 1, line)
	fourier := ssm.Project(ssm.Fourier, 41, 1, line)
	at := []float64{0.25, 0.5, 1.25}
	fmt.Printf("Legendre %.3f\n", ssm.Reconstruct(ssm.Legendre, legendre, at))
	fmt.Printf("Fourier  %.3f\n", ssm.Reconstruct(ssm.Fourier, fourier, at))
	// Output:
	// Legendre [0.250 0.500 1.250]
	// Fourier  [0.258 0.500 0.258]
}
