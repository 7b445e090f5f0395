package ssm

import "math/bits"

// FFT returns the [DFT] of x (n) in a multiple of n log n steps, for any n. If n is a power of two it splits x in
// halves: with E and O the transforms of the even and the odd entries, X_k = E_k + exp(-2πi k/n) O_k. Other lengths use
// [Bluestein]. Cooley and Tukey, An algorithm for the machine calculation of complex Fourier series, 1965.
func FFT(x []complex128) []complex128 {
	n := len(x)
	if n&(n-1) != 0 {
		return Bluestein(x)
	}
	y := make([]complex128, n)
	halve(y, x, rootsOfUnity(n), 1)
	return y
}

// InverseFFT returns the x whose [FFT] is y.
func InverseFFT(y []complex128) []complex128 { return inverseOf(FFT, y) }

// halve fills y (n) with the transform of x_0, x_s, x_2s, ..., where s is the stride. roots are the roots of unity of
// the whole length.
func halve(y, x, roots []complex128, stride int) {
	n := len(y)
	if n <= 1 {
		copy(y, x[:n])
		return
	}
	even, odd := y[:n/2], y[n/2:]
	halve(even, x, roots, 2*stride)
	halve(odd, x[stride:], roots, 2*stride)
	for k := range even {
		e, o := even[k], roots[k*stride]*odd[k]
		even[k], odd[k] = e+o, e-o
	}
}

// Bluestein returns the [DFT] of x (n), any n, as a convolution: jk = (j² + k² - (k-j)²)/2, so with c_j = exp(-πi j²/n)
//
//	X_k = c_k Σ_j (x_j c_j) conj(c_{k-j})
//
// which is computed by FFTs whose length is a power of two of at least 2n - 1. L. Bluestein, A linear filtering
// approach to the computation of the discrete Fourier transform, 1970.
func Bluestein(x []complex128) []complex128 {
	n := len(x)
	if n == 0 {
		return nil
	}
	chirp := make([]complex128, n)
	for j := range chirp {
		chirp[j] = rootOfUnity(j*j%(2*n), 2*n) // the remainder avoids the loss of digits in an angle of j²
	}
	m := 1 << bits.Len(uint(2*n-2))
	a, b := make([]complex128, m), make([]complex128, m)
	for j, c := range conjugates(chirp) {
		a[j] = x[j] * chirp[j]
		b[j], b[(m-j)%m] = c, c
	}
	a, b = FFT(a), FFT(b)
	for k := range a {
		a[k] *= b[k]
	}
	y := InverseFFT(a)[:n]
	for k, c := range chirp {
		y[k] *= c
	}
	return y
}

// RealFFT returns X_0 to X_{n/2} of the [DFT] of a real x (n), n even, with half the work of [FFT]. The others are
// their conjugates, X_{n-k} = conj X_k. The even entries become the real part and the odd entries the imaginary part of
// a signal z of half the length, with transform Z; then
//
//	E_k = (Z_k + conj Z_{n/2-k})/2,  O_k = (Z_k - conj Z_{n/2-k})/2i,  X_k = E_k + exp(-2πi k/n) O_k
//
// For an odd n it is the FFT of x, truncated.
func RealFFT(x []float64) []complex128 {
	n := len(x)
	if n%2 != 0 {
		return FFT(padded(x, n))[:n/2+1]
	}
	half := n / 2
	if half == 0 {
		return nil
	}
	z := FFT(fromReIm(x))
	y := make([]complex128, half+1)
	for k := range y {
		a, b := z[k%half], z[(half-k)%half]
		b = complex(real(b), -imag(b))
		y[k] = (a+b)/2 + rootOfUnity(k, n)*(a-b)/2i
	}
	return y
}
