package ssm

import (
	"fmt"
	"maps"
	"math"
	"math/cmplx"
	"slices"
	"strings"
)

// Convention selects one of two S4D initializations. The two official repositories differ in signs and in B.
type Convention int

const (
	// ConventionH3 follows H3's release (January 2023): Im A ≥ 0, but ≤ 0 for legs, and B = 1.
	ConventionH3 Convention = iota
	// ConventionS4 follows the S4 repository (2023): Im A ≤ 0, and B = 1, except that legs has the B of LegS in the
	// basis of its eigenvectors.
	ConventionS4
)

// String returns "h3" or "s4".
func (c Convention) String() string {
	switch c {
	case ConventionH3:
		return "h3"
	case ConventionS4:
		return "s4"
	}
	return fmt.Sprintf("Convention(%d)", int(c))
}

// legsClip bounds the imaginary part of legs' B, as the S4 repository does. Without a bound it grows with n, and so
// does the output of the fast modes.
const legsClip = 2

// formulas holds A_k, in the upper half plane, for the initializations with a closed form, for a full state of n.
var formulas = map[string]func(n, k float64) complex128{
	"inv":  func(n, k float64) complex128 { return complex(-0.5, n/math.Pi*(n/(2*k+1)-1)) },
	"lin":  func(n, k float64) complex128 { return complex(-0.5, math.Pi*k) },
	"inv2": func(n, k float64) complex128 { return complex(-0.5, n/math.Pi*(n/(k+1)-1)) },
	"quad": func(n, k float64) complex128 { return complex(-0.5, (2*k+1)*(2*k+1)/math.Pi) },
	"real": func(n, k float64) complex128 { return complex(-(k + 1), 0) },
}

// DiagonalInit returns the initial values of a diagonal SSM, A (n/2) and B (n/2), for a full state of even size n:
// every entry represents a conjugate pair. The names are, with k < n/2:
//
//	legs   the spectrum of HiPPO-LegS without its rank-one part, Re A = -½
//	inv    A_k = -½ ± i n/π (n/(2k+1) - 1), close to the spectrum of legs
//	lin    A_k = -½ ± iπk, close to the spectrum of HiPPO-FouT
//	inv2   A_k = -½ ± i n/π (n/(k+1) - 1)
//	quad   A_k = -½ ± i (2k+1)²/π
//	real   A_k = -(k+1)
//
// The sign and B follow conv. S4D, arXiv:2206.11893, §4. It returns an error for an unknown name and for an n that is
// odd or not positive.
func DiagonalInit(name string, n int, conv Convention) (A, B []complex128, err error) {
	if n <= 0 || n%2 != 0 {
		return nil, nil, fmt.Errorf("ssm: diagonal init: d_state is %d, want a positive even number", n)
	}
	if conv != ConventionH3 && conv != ConventionS4 {
		return nil, nil, fmt.Errorf("ssm: diagonal init: unknown convention %v", conv)
	}
	if name == "legs" {
		return legsInit(n, conv)
	}
	formula, known := formulas[name]
	if !known {
		names := append(slices.Sorted(maps.Keys(formulas)), "legs")
		return nil, nil, fmt.Errorf("ssm: diagonal init %q: want one of %s", name, strings.Join(names, ", "))
	}
	A, B = make([]complex128, n/2), make([]complex128, n/2)
	for k := range A {
		A[k], B[k] = formula(float64(n), float64(k)), 1
		if conv == ConventionS4 {
			A[k] = cmplx.Conj(A[k])
		}
	}
	return A, B, nil
}

// legsInit returns DiagonalInit("legs", n, conv).
func legsInit(n int, conv Convention) (A, B []complex128, err error) {
	normal, _, err := NPLR("legs", n)
	if err != nil {
		return nil, nil, err
	}
	B = normal.B
	for k, b := range B {
		if conv == ConventionH3 {
			B[k] = 1
		} else {
			B[k] = complex(real(b), max(-legsClip, min(legsClip, imag(b))))
		}
	}
	return normal.Lambda, B, nil
}
