package ssm

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Memorize runs x' = Ax + Bu, usually one of the HiPPO systems, over the signal f (l), sampled every dt, from a state
// of zero, and returns the state after every sample: c[k] (n) for k < l. Errors are as in [Discretize].
//
// The comments of [LegT], [LagT] and [FouT] describe the meaning of the coefficients; see also [Reconstruct].
func Memorize(a mat.Matrix, b, f []float64, dt float64, m Method) (c [][]float64, err error) {
	Abar, Bbar, err := Discretize(a, b, dt, m)
	if err != nil {
		return nil, err
	}
	c = make([][]float64, len(f))
	x := make([]float64, len(b))
	for k, fk := range f {
		x = mulVec(Abar, x)
		floats.AddScaled(x, fk, Bbar)
		c[k] = x
	}
	return c, nil
}

// MemorizeLegS runs HiPPO-LegS, x' = (Ax + Bu)/t, over f (l) and returns the n coefficients after every sample: c[k]
// (n) is the projection of all of f[:k+1], stretched to [0, 1], on the Legendre polynomials of [Legendre]. Before the
// first sample, for t from 0 to 1, the signal counts as 0.
//
// Sample k, counted from 1, moves t from k to k+1 by the rule m for A/k and B/k with a step of 1. Zero-order hold,
// which is exact, takes the step log((k+1)/k), the step of t in logarithmic time. There is no step size: stretching
// time changes nothing. An n below 1 is an error. HiPPO, arXiv:2008.07669, §3 and proposition 3.
func MemorizeLegS(n int, f []float64, m Method) (c [][]float64, err error) {
	if n < 1 {
		return nil, fmt.Errorf("ssm: LegS: d_state is %d, want a positive number", n)
	}
	a, b := LegS(n)
	c = make([][]float64, len(f))
	x := make([]float64, n)
	for k, fk := range f {
		dt := 1 / float64(k+1)
		if m == ZOH {
			dt = math.Log1p(dt)
		}
		Abar, Bbar, err := Discretize(a, b, dt, m)
		if err != nil {
			return nil, err
		}
		x = mulVec(Abar, x)
		floats.AddScaled(x, fk, Bbar)
		c[k] = x
	}
	return c, nil
}

// Reconstruct returns the function with the coefficients c (n) in the basis phi, Σ_i c_i phi_i(v), at every point v of
// at. For LegS, v is a fraction of the past, from 0 at the beginning to 1 now; for LegT it is the same fraction of the
// window; for LagT and FouT it is the time before now.
func Reconstruct(phi Basis, c, at []float64) []float64 {
	y := make([]float64, len(at))
	for k, v := range at {
		y[k] = floats.Dot(c, phi(len(c), v))
	}
	return y
}
