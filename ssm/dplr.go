package ssm

import (
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// DPLR is the state-space model of S4, a diagonal matrix minus one of low rank, sampled every Dt:
//
//	x' = (Λ - P P^*) x + B u,  y = Re C x
//
// Its 2n states are n conjugate pairs. The fields hold one of each pair: Lambda, B, C (n) and P[r] (n) for every r
// below the rank. So P_r^* x = 2 Re Σ_i conj(P_ri) x_i is a real number, and y = 2 Re Σ_i C_i x_i. A state has n
// entries. It is sampled by the bilinear rule, as in S4. S4, arXiv:2111.00396, §3. The rank may be 0, which is
// [Diagonal].
type DPLR struct {
	Lambda, B, C []complex128
	P            [][]complex128
	Dt           float64
}

// Continuous returns the same system in 2n real states. Mode i has the states Re x_i and Im x_i.
func (s *DPLR) Continuous() *Continuous {
	n := len(s.Lambda)
	a := mat.NewDense(2*n, 2*n, nil)
	for i, z := range s.Lambda {
		setComplex(a, i, i, z)
	}
	for _, p := range s.P {
		v := mat.NewVecDense(2*n, ReIm(p))
		a.RankOne(a, -2, v, v)
	}
	return &Continuous{A: a, B: ReIm(s.B), C: readOut(s.C)}
}

// Step advances the state x (n) by one step, in place, and returns the output. It forms no matrix: with d_i = 1/(2/Dt -
// Λ_i), and d the diagonal matrix of these, the Woodbury identity gives the bilinear rule as
//
//	z = (2/Dt + Λ - P P^*) x + 2 B u
//	x = d z - d P (1 + P^* d P)⁻¹ P^* d z
//
// S4, arXiv:2111.00396, appendix C.2.
func (s *DPLR) Step(x []complex128, u float64) (y float64) {
	two := complex(2/s.Dt, 0)
	q := s.project(x)
	for i, lambda := range s.Lambda {
		z := (two+lambda)*x[i] + s.B[i]*complex(2*u, 0)
		for r, p := range s.P {
			z -= p[i] * complex(q[r], 0)
		}
		x[i] = z / (two - lambda)
	}
	if rank := len(s.P); rank > 0 {
		small := mat.NewDense(rank, rank, nil) // 1 + P^* d P
		dp := make([][]complex128, rank)
		for r, p := range s.P {
			dp[r] = make([]complex128, len(p))
			for i, v := range p {
				dp[r][i] = v / (two - s.Lambda[i])
			}
			small.SetCol(r, s.project(dp[r]))
			small.Set(r, r, 1+small.At(r, r))
		}
		var w mat.VecDense
		// The matrix has an inverse: for Re Λ ≤ 0 its symmetric part is at least 1.
		_ = w.SolveVec(small, mat.NewVecDense(rank, s.project(x)))
		for r := range s.P {
			for i := range x {
				x[i] -= dp[r][i] * complex(w.AtVec(r), 0)
			}
		}
	}
	return 2 * real(dot(s.C, x))
}

// Scan steps through u (l) from the state x (n) and replaces x by the state after u. If x is nil, the state starts at
// zero and is not returned.
func (s *DPLR) Scan(x []complex128, u []float64) (y []float64) {
	if x == nil {
		x = make([]complex128, len(s.Lambda))
	}
	y = make([]float64, len(u))
	for k, uk := range u {
		y[k] = s.Step(x, uk)
	}
	return y
}

// ZeroInput returns the response to the initial state x0 (n) over l steps without input. x0 is not changed.
func (s *DPLR) ZeroInput(x0 []complex128, l int) []float64 {
	return s.Scan(slices.Clone(x0), make([]float64, l))
}

// project returns P_r^* x for every r. The result is real, since the conjugate half of the state adds the conjugate.
func (s *DPLR) project(x []complex128) []float64 {
	q := make([]float64, len(s.P))
	for r, p := range s.P {
		q[r] = 2 * real(dot(conjugates(p), x))
	}
	return q
}

// readOut returns the row c (2n) with c·ReIm(x) = 2 Re Σ_i C_i x_i.
func readOut(C []complex128) []float64 {
	c := ReIm(C)
	for i := 0; i < len(c); i += 2 {
		c[i], c[i+1] = 2*c[i], -2*c[i+1]
	}
	return c
}

// fromReadOut is the inverse of readOut.
func fromReadOut(c []float64) []complex128 {
	half := slices.Clone(c)
	floats.Scale(0.5, half)
	return conjugates(fromReIm(half))
}
