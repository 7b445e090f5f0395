package kernel

import (
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// TestDiagStep runs some hundred steps of a stable system beside the same in complex128.
func TestDiagStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int{1, 3, 16} {
		a, b, c, x := make([]float32, 2*n), normals(rng, 2*n), normals(rng, 2*n), normals(rng, 2*n)
		var A, B, C, X []complex128
		at := func(x []float32, i int) complex128 { return complex(float64(x[2*i]), float64(x[2*i+1])) }
		for i := range n {
			z := cmplx.Rect(0.9+0.09*rng.Float64(), 6*rng.Float64())
			a[2*i], a[2*i+1] = float32(real(z)), float32(imag(z))
			A, B, C, X = append(A, at(a, i)), append(B, at(b, i)), append(C, at(c, i)), append(X, at(x, i))
		}
		var got []float32
		var want []float64
		for range 300 {
			u := float32(rng.NormFloat64())
			got = append(got, DiagStep(x, a, b, c, u))
			y := 0.0
			for i := range X {
				X[i] = A[i]*X[i] + B[i]*complex(float64(u), 0)
				y += 2 * real(C[i]*X[i])
			}
			want = append(want, y)
		}
		within(t, "y", got, want, 2e-6)
		var state []float64
		for _, v := range X {
			state = append(state, real(v), imag(v))
		}
		within(t, "state", x, state, 2e-6)
	}
}
