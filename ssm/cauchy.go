package ssm

import (
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// Kernel returns K_j = Re C Abarʲ Bbar for j < l by its definition: the response of the recurrence to (1, 0, 0, ...).
func (s *DPLR) Kernel(l int) []float64 {
	u := make([]float64, l)
	if l > 0 {
		u[0] = 1
	}
	return s.Scan(nil, u)
}

// CauchyKernel returns the kernel of length l if C holds the parameter that S4 trains, C~ = C (I - Abar^l) of
// [DPLR.TruncatedC]. The [DPLR.GeneratingFunction] at the l-th roots of unity is then the discrete Fourier transform of
// the kernel truncated to l, and K is its inverse transform. S4, arXiv:2111.00396, algorithm 1.
func (s *DPLR) CauchyKernel(l int) []float64 {
	spectrum := make([]complex128, l)
	for k := range spectrum {
		spectrum[k] = s.GeneratingFunction(rootOfUnity(k, l))
	}
	return realParts(InverseDFT(spectrum))
}

// GeneratingFunction returns Σ_j C Abarʲ Bbar zʲ = C (I - Abar z)⁻¹ Bbar over all 2n states. With the bilinear rule
//
//	I - Abar z = (I - ½ Dt A)⁻¹ M,  M = (1-z) - h A,  h = ½ Dt (1+z),  so that the value is C M⁻¹ Dt B.
//
// M is diagonal plus low rank, M = diag(m) + h P P^* with m_i = (1-z) - h Λ_i, and the Woodbury identity
//
//	C M⁻¹ B = C m⁻¹ B - h (C m⁻¹ P) (1 + h P^* m⁻¹ P)⁻¹ (P^* m⁻¹ B)
//
// leaves sums of the form Σ_i a_i b_i / (w - Λ_i), w = 2/Dt (1-z)/(1+z): products with a Cauchy matrix. Written with m
// they have no pole at z = -1. S4, arXiv:2111.00396, appendix C.3.
func (s *DPLR) GeneratingFunction(z complex128) complex128 {
	f := s.full()
	return dot(f.C, f.resolvent(z, f.P, f.B)) * complex(s.Dt, 0)
}

// TruncatedC returns C~ = C (I - Abar^l), which S4 trains instead of C.
func (s *DPLR) TruncatedC(l int) []complex128 {
	var c mat.VecDense
	c.MulVec(s.truncation(l).T(), mat.NewVecDense(2*len(s.C), readOut(s.C)))
	return fromReadOut(c.RawVector().Data)
}

// UntruncatedC returns the C whose TruncatedC(l) is the C~ in s.C. It returns an error if a mode does not decay over l
// steps, as I - Abar^l then has no inverse.
func (s *DPLR) UntruncatedC(l int) ([]complex128, error) {
	var c mat.VecDense
	if err := c.SolveVec(s.truncation(l).T(), mat.NewVecDense(2*len(s.C), readOut(s.C))); err != nil {
		return nil, fmt.Errorf("ssm: C of a kernel of length %d: %w", l, err)
	}
	return fromReadOut(c.RawVector().Data), nil
}

// truncation returns I - Abar^l in real coordinates.
func (s *DPLR) truncation(l int) *mat.Dense {
	n := 2 * len(s.Lambda)
	abar := mat.NewDense(n, n, nil)
	for j := range n {
		x := make([]complex128, len(s.Lambda))
		if j%2 == 0 {
			x[j/2] = 1
		} else {
			x[j/2] = 1i
		}
		s.Step(x, 0)
		abar.SetCol(j, ReIm(x))
	}
	var m mat.Dense
	m.Pow(abar, l)
	m.Scale(-1, &m)
	for i := range n {
		m.Set(i, i, 1+m.At(i, i))
	}
	return &m
}

// full returns the system with all 2n states: the stored half and then its conjugates.
func (s *DPLR) full() *DPLR {
	f := &DPLR{Lambda: withConjugates(s.Lambda), B: withConjugates(s.B), C: withConjugates(s.C), Dt: s.Dt}
	for _, p := range s.P {
		f.P = append(f.P, withConjugates(p))
	}
	return f
}

// resolvent returns M⁻¹ b for M = (1-z) - h (Λ - p p^*), h = ½ Dt (1+z), of a full system.
func (s *DPLR) resolvent(z complex128, p [][]complex128, b []complex128) []complex128 {
	h := complex(s.Dt/2, 0) * (1 + z)
	divide := func(v []complex128) []complex128 {
		w := make([]complex128, len(v))
		for i, lambda := range s.Lambda {
			w[i] = v[i] / ((1 - z) - h*lambda)
		}
		return w
	}
	x := divide(b)
	if len(p) == 0 {
		return x
	}
	small := make([][]complex128, len(p)) // 1 + h p^* m⁻¹ p
	right := make([]complex128, len(p))   // p^* m⁻¹ b
	mp := make([][]complex128, len(p))    // m⁻¹ p
	for r := range p {
		mp[r] = divide(p[r])
		right[r] = dot(conjugates(p[r]), x)
	}
	for r := range p {
		small[r] = make([]complex128, len(p))
		for c := range p {
			small[r][c] = h * dot(conjugates(p[r]), mp[c])
		}
		small[r][r] += 1
	}
	for r, w := range solveComplex(small, right) {
		for i := range x {
			x[i] -= h * mp[r][i] * w
		}
	}
	return x
}
