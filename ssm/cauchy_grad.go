package ssm

// CauchyKernelGrad returns the gradient of a loss with respect to the parameters of [DPLR.CauchyKernel] (l), given g
// (l), the gradient with respect to the kernel. The result is in the fields of a DPLR. For a complex parameter it is
// the gradient in Re plus i times the gradient in Im.
//
// With M, h and z as in [DPLR.GeneratingFunction], left = M⁻ᵀ C and right = M⁻¹ Dt B, a value K^ = C M⁻¹ Dt B changes
// by
//
//	dK^ = dC·right + left·(Dt dB + B dDt) + left·(h dA + ½ (1+z) A dDt) right,  dA = dΛ - dP P^* - P dP^*
//
// and the loss changes by Σ_k w_k dK^(z_k), w_k = 1/l Σ_j g_j z_k^-j. The kernel is real, so a parameter and its
// conjugate contribute conjugate numbers: the gradient is 2 conj of the factor of the parameter's own change.
func (s *DPLR) CauchyKernelGrad(g []float64) *DPLR {
	n, l := len(s.Lambda), len(g)
	d := &DPLR{Lambda: make([]complex128, n), B: make([]complex128, n), C: make([]complex128, n)}
	for range s.P {
		d.P = append(d.P, make([]complex128, n))
	}
	f := s.full()
	var conjP [][]complex128
	for _, p := range f.P {
		conjP = append(conjP, conjugates(p))
	}
	dt := complex(s.Dt, 0)
	for k, w := range InverseDFT(padded(g, l)) {
		z := rootOfUnity(k, l)
		h := dt / 2 * (1 + z)
		left, right := f.resolvent(z, conjP, f.C), f.resolvent(z, f.P, f.B)
		aRight := make([]complex128, 2*n) // A right / Dt
		for i, v := range right {
			aRight[i] = f.Lambda[i] * v
		}
		for i := range n {
			d.C[i] += w * dt * right[i]
			d.B[i] += w * dt * left[i]
			d.Lambda[i] += w * dt * h * left[i] * right[i]
		}
		for r, p := range f.P {
			pRight, leftP := dot(conjP[r], right), dot(left, p)
			for i := range n {
				d.P[r][i] -= w * dt * h * (left[i]*pRight + leftP*right[n+i])
			}
			for i := range aRight {
				aRight[i] -= p[i] * pRight
			}
		}
		d.Dt += real(w * (dot(left, f.B) + h*dot(left, aRight)))
	}
	for _, z := range append([][]complex128{d.Lambda, d.B, d.C}, d.P...) {
		for i, v := range conjugates(z) {
			z[i] = 2 * v
		}
	}
	return d
}
