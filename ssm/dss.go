package ssm

import "math/cmplx"

// DSS is a channel of the diagonal state spaces of Gupta, Goel and Berant, arXiv:2203.14343: n complex modes Lambda
// with weights W (n). The output is the real part. There are no conjugate pairs and no B. The three kernels differ in
// the meaning of W. DtRe and DtIm are the steps of Re Λ and Im Λ. They are equal in the paper but separate parameters
// in its release.
//
// With both steps 1, [DSS.ExpKernel] is the kernel of GSS, arXiv:2206.13947, §3.2, whose release trains log(-Re Λ) and
// log(Im Λ).
type DSS struct {
	Lambda, W  []complex128
	DtRe, DtIm float64
}

// SoftmaxKernel returns the kernel of DSS_SOFTMAX (l):
//
//	K_k = Re Σ_i W_i/Λ_i · softmax_k(Λ_i Dt k)
//	    = Re Σ_i W_i exp(Λ_i Dt k) (exp(Λ_i Dt) - 1) / (Λ_i (exp(l Λ_i Dt) - 1))
//
// A Λ_i with Re Λ_i > 0 is allowed: the softmax then puts the most weight on the other end of the signal. As the
// denominator x may be near 0, conj(x)/(|x|² + epsilon) replaces 1/x; the release has epsilon = 1e-7. Proposition 1(a)
// and appendix A.2.
func (s *DSS) SoftmaxKernel(l int, epsilon float64) []float64 {
	return s.kernel(l, func(lambda, z complex128) (complex128, int) {
		last := 0
		if real(lambda) > 0 { // count from the end, where exp(zk) is largest
			last, z = l-1, -z
		}
		x := expm1(complex(float64(l), 0)*z) * lambda
		return expm1(z) * cmplx.Conj(x) / complex(real(x)*real(x)+imag(x)*imag(x)+epsilon, 0), last
	})
}

// ExpKernel returns the kernel of DSS_EXP (l), K_k = Re Σ_i W_i exp(Λ_i Dt k) (exp(Λ_i Dt) - 1)/Λ_i: zero-order hold
// with B = 1 and C = W. Proposition 1(b).
func (s *DSS) ExpKernel(l int) []float64 {
	return s.kernel(l, func(lambda, z complex128) (complex128, int) { return expm1(z) / lambda, 0 })
}

// UnscaledKernel returns K_k = Re Σ_i W_i exp(Λ_i Dt k) for k < l, the release's exp-no-scale: a Vandermonde matrix
// times W.
func (s *DSS) UnscaledKernel(l int) []float64 {
	return s.kernel(l, func(_, _ complex128) (complex128, int) { return 1, 0 })
}

// kernel returns Re Σ_i W_i factor_i exp(Λ_i Dt (k - origin_i)).
func (s *DSS) kernel(l int, factor func(lambda, z complex128) (complex128, int)) []float64 {
	kernel := make([]float64, l)
	for i, lambda := range s.Lambda {
		z := complex(s.DtRe*real(lambda), s.DtIm*imag(lambda))
		f, origin := factor(lambda, z)
		for k := range kernel {
			kernel[k] += real(s.W[i] * f * cmplx.Exp(z*complex(float64(k-origin), 0)))
		}
	}
	return kernel
}
