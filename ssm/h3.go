package ssm

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// H3Diagonal draws the diagonal SSM of one channel as H3's release initializes it, for a full state of even size n (n/2
// modes in conjugate pairs):
//
//	dt log-uniform in [dtMin, dtMax],  A_k = -½ + iπk,  B = 1,  C complex normal
//
// A checkpoint stores log dt, log(-Re A) as inv_A_real, Im A as A_imag, B, and the conjugate of the drawn C times B.
// The conjugate of a complex normal number is complex normal too, so C here is the value in the checkpoint. It returns
// an error for an invalid n, and unless 0 < dtMin ≤ dtMax.
func H3Diagonal(rng *rand.Rand, n int, dtMin, dtMax float64) (*Diagonal, error) {
	A, B, err := DiagonalInit("lin", n, ConventionH3)
	if err != nil {
		return nil, err
	}
	if !(dtMin > 0 && dtMin <= dtMax) || math.IsInf(dtMax, 0) {
		return nil, fmt.Errorf("ssm: dt_min is %v and dt_max %v, want 0 < dt_min <= dt_max", dtMin, dtMax)
	}
	s := &Diagonal{A: A, B: B, C: make([]complex128, len(A)), Dt: LogUniform(rng, dtMin, dtMax), Pairs: true}
	for k := range s.C {
		s.C[k] = ComplexNormal(rng)
	}
	return s, nil
}

// H3Shift draws the shift SSM of one channel as H3's release initializes it: B = e₁, C uniform in ±1/√n. An n below 1
// is an error.
func H3Shift(rng *rand.Rand, n int) (*Shift, error) {
	if n < 1 {
		return nil, fmt.Errorf("ssm: shift init: d_state is %d, want a positive number", n)
	}
	s := &Shift{B: make([]float64, n), C: make([]float64, n)}
	s.B[0] = 1
	for i := range s.C {
		s.C[i] = (2*rng.Float64() - 1) / math.Sqrt(float64(n))
	}
	return s, nil
}

// LogUniform draws a number in [lo, hi], 0 < lo ≤ hi, whose logarithm is uniform.
func LogUniform(rng *rand.Rand, lo, hi float64) float64 {
	x := lo * math.Exp(rng.Float64()*math.Log(hi/lo))
	return min(x, hi) // exp may round up past hi
}

// ComplexNormal draws a complex number of mean 0 and variance 1, ½ in each of its parts.
func ComplexNormal(rng *rand.Rand) complex128 {
	re := rng.NormFloat64()
	im := rng.NormFloat64()
	return complex(re*math.Sqrt2/2, im*math.Sqrt2/2)
}
