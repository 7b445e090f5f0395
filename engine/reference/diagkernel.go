package reference

import (
	"math/cmplx"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// DiagKernel is the impulse response of a diagonal system, (l, h):
//
//	K[j, h] = 2 Re Σ_n C·B̄·Āʲ
//	g_C = Σ_j 2 dK[j]·conj(B̄·Āʲ),   g_B̄ = Σ_j 2 dK[j]·conj(C·Āʲ),   g_Ā = Σ_j 2 dK[j]·conj(C·B̄·j·Āʲ⁻¹)
func (eng *Engine) DiagKernel(s *engine.DiagSystem, l int) *tensor.Tensor {
	k := eng.New(l, s.H)
	K, Abar, Bbar, C := eng.values(k), eng.values(s.Abar), eng.values(s.Bbar), eng.values(s.C)
	for i := range s.H * s.N {
		power := complex128(1) // Āʲ
		for j := range l {
			K[j*s.H+i/s.N] += 2 * real(pair(C, i)*pair(Bbar, i)*power)
			power *= pair(Abar, i)
		}
	}
	eng.record("DiagKernel", list{k}, list{s.Abar, s.Bbar, s.C}, func() {
		dK, dAbar, dBbar, dC := eng.gradOf(k), eng.gradOf(s.Abar), eng.gradOf(s.Bbar), eng.gradOf(s.C)
		for i := range s.H * s.N {
			a, b, c := pair(Abar, i), pair(Bbar, i), pair(C, i)
			power, before := complex128(1), complex128(0) // Āʲ and Āʲ⁻¹
			for j := range l {
				g := complex(2*dK[j*s.H+i/s.N], 0)
				addPair(dC, i, g*cmplx.Conj(b*power))
				addPair(dBbar, i, g*cmplx.Conj(c*power))
				addPair(dAbar, i, g*cmplx.Conj(c*b*complex(float64(j), 0)*before))
				power, before = power*a, power
			}
		}
	})
	return k
}
