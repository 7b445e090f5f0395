package ssm

import "math"

// DFT returns the discrete Fourier transform X_k = Σ_j x_j exp(-2πi jk/n) of x (n) by the sum itself, in n² steps.
func DFT(x []complex128) []complex128 {
	n := len(x)
	roots := rootsOfUnity(n)
	y := make([]complex128, n)
	for k := range y {
		for j, v := range x {
			y[k] += v * roots[j*k%n]
		}
	}
	return y
}

// InverseDFT returns the x whose [DFT] is y (n): x_j = 1/n Σ_k y_k exp(2πi jk/n).
func InverseDFT(y []complex128) []complex128 { return inverseOf(DFT, y) }

// inverseOf returns the inverse of a Fourier transform: exp(2πi jk/n) is the conjugate of exp(-2πi jk/n).
func inverseOf(transform func([]complex128) []complex128, y []complex128) []complex128 {
	x := conjugates(transform(conjugates(y)))
	for j := range x {
		x[j] /= complex(float64(len(y)), 0)
	}
	return x
}

// rootsOfUnity returns exp(-2πi k/n) for k < n.
func rootsOfUnity(n int) []complex128 {
	roots := make([]complex128, n)
	for k := range roots {
		roots[k] = rootOfUnity(k, n)
	}
	return roots
}

// rootOfUnity returns exp(-2πi k/l).
func rootOfUnity(k, l int) complex128 {
	sin, cos := math.Sincos(-2 * math.Pi * float64(k) / float64(l))
	return complex(cos, sin)
}
