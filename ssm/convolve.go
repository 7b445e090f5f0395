package ssm

import "gonum.org/v1/gonum/mat"

// Convolve returns the causal convolution y_k = Σ_{j≤k} kernel_j u_{k-j}, with the length l of u, by the sum itself. A
// kernel shorter than u counts as zero past its end. The rest of a longer kernel is not used.
func Convolve(kernel, u []float64) []float64 {
	y := make([]float64, len(u))
	for k := range y {
		for j := range min(k+1, len(kernel)) {
			y[k] += kernel[j] * u[k-j]
		}
	}
	return y
}

// ConvolveBothWays returns y_k = Σ_{j≤k} past_{k-j} u_j + Σ_{j>k} future_{j-k-1} u_j, with the length of u: the
// bidirectional convolution of S4's release, whose second kernel starts at the next input. The kernels may have any
// lengths, as in [Convolve].
func ConvolveBothWays(past, future, u []float64) []float64 {
	y := Convolve(past, u)
	for k := range y {
		for m, v := range future[:min(len(future), len(u)-1-k)] {
			y[k] += v * u[k+1+m]
		}
	}
	return y
}

// ConvolveFull returns the whole convolution y_k = Σ_j a_j b_{k-j} of a (m) and b (n), m + n - 1 entries, or none if
// one of them is empty. It gives the coefficients of the product of two polynomials, and the density of the sum of two
// independent random numbers.
func ConvolveFull(a, b []float64) []float64 {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	y := make([]float64, len(a)+len(b)-1)
	for i, v := range a {
		for j, w := range b {
			y[i+j] += v * w
		}
	}
	return y
}

// ConvolvePower returns the convolution of n factors a: the density of the sum of n throws. For n = 0 it is (1), the
// density of the empty sum.
func ConvolvePower(a []float64, n int) []float64 {
	y := []float64{1}
	for range n {
		y = ConvolveFull(y, a)
	}
	return y
}

// ConvolveCircular returns y_k = Σ_j a_j b_{(k-j) mod n} for a and b of n entries each: the convolution of periodic
// signals, whose DFT of length n is the product of their DFTs.
func ConvolveCircular(a, b []float64) []float64 {
	n := len(a)
	y := make([]float64, n)
	for i, v := range a {
		for j, w := range b {
			y[(i+j)%n] += v * w
		}
	}
	return y
}

// ConvolveFFT returns [ConvolveFull] of a and b as the inverse transform of the product of their transforms, in n log n
// steps. Both are padded with zeros to the length of the result: otherwise the end would wrap around to the beginning,
// as in [ConvolveCircular].
func ConvolveFFT(a, b []float64) []float64 {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	n := len(a) + len(b) - 1
	x, y := FFT(padded(a, n)), FFT(padded(b, n))
	for k := range x {
		x[k] *= y[k]
	}
	return realParts(InverseFFT(x))
}

// Toeplitz returns the matrix (l, l) of the causal convolution with kernel, T_ij = kernel_{i-j} for i ≥ j, otherwise 0:
// T u is Convolve(kernel, u). l must be positive.
func Toeplitz(kernel []float64, l int) *mat.Dense {
	t := mat.NewDense(l, l, nil)
	for i := range l {
		for j := max(0, i-len(kernel)+1); j <= i; j++ {
			t.Set(i, j, kernel[i-j])
		}
	}
	return t
}

// Circulant returns the matrix (l, l) of the circular convolution with kernel, C_ij = kernel_{(i-j) mod l}: C u is
// ConvolveCircular(kernel, u). It is [Toeplitz] plus the corner above the diagonal, where the end of the signal wraps
// around to the beginning. The discrete Fourier transform diagonalizes it, with the transform of kernel on the
// diagonal. The kernel counts as zero past its end. It must have at most l entries, and l must be positive.
func Circulant(kernel []float64, l int) *mat.Dense {
	c := Toeplitz(kernel, l)
	for i := range l {
		for j := i + 1; j < l; j++ {
			if lag := i - j + l; lag < len(kernel) {
				c.Set(i, j, kernel[lag])
			}
		}
	}
	return c
}

// Delta returns a signal (l) that is 1 at k, 0 ≤ k < l, and otherwise 0. Convolution with Delta(0, l) changes nothing,
// and convolution with Delta(k, l) delays by k steps.
func Delta(k, l int) []float64 {
	d := make([]float64, l)
	d[k] = 1
	return d
}
