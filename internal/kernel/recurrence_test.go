package kernel

import (
	"fmt"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// TestDiagSteps compares some hundred steps of a stable system with the same in complex128.
func TestDiagSteps(t *testing.T) {
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
			z := make([]float32, 1)
			r := DiagRecurrence{Systems: 1, Per: 1, N: n, A: a, B: b, C: c, Skip: []float32{0.5}}
			r.Step(z, []float32{u}, x)
			got = append(got, z[0])
			y := 0.5 * float64(u)
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

// BenchmarkDiagSteps measures a step of channels with 32 modes, which fit in the first-level cache or fill the second.
func BenchmarkDiagSteps(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 5))
	defer func(old level) { cpu = old }(cpu)
	for _, channels := range []int{16, 768} {
		const n = 32
		array := func(n int) []float32 { return normals(rng, n) }
		x, a, in, out := array(2*n*channels), make([]float32, 2*n*channels), array(2*n*channels), array(2*n*channels)
		u, z, skip := array(channels), array(channels), array(channels)
		for i := range n * channels {
			a[2*i], a[2*i+1] = 0.7, 0.7
		}
		for _, cpu = range machineLevels() {
			b.Run(fmt.Sprintf("channels=%d/%s", channels, cpu), func(b *testing.B) {
				r := DiagRecurrence{Systems: channels, Per: 1, N: n, A: a, B: in, C: out, Skip: skip}
				for b.Loop() {
					r.Step(z, u, x)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*channels), "ns/channel")
			})
		}
	}
}
