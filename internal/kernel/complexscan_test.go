package kernel

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

func TestSincos(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 71))
	for i := range 20000 {
		x := rng.NormFloat64() * math.Pow(10, float64(i%9-2))
		s, c := sincos(x)
		if e := max(math.Abs(float64(s)-math.Sin(x)), math.Abs(float64(c)-math.Cos(x))); e > 1.5e-7 {
			t.Fatalf("x = %v: error %.2g", x, e)
		}
	}
	if s, c := sincos(math.Inf(1)); !isNaN(s) || !isNaN(c) {
		t.Error("no NaN for +Inf")
	}
}

// TestComplexScan checks the recurrence against complex128. Its gradients are checked by autograd's table.
func TestComplexScan(t *testing.T) {
	const rows, n, step, stride = 9, 3, 2, 7
	rng := rand.New(rand.NewPCG(72, 72))
	u, delta, b, c := normals(rng, rows*step), normals(rng, rows*step),
		normals(rng, rows*stride), normals(rng, rows*stride)
	a, h, y := normals(rng, 2*n), normals(rng, 2*n), make([]float32, rows*step)
	at := func(x []float32, i int) complex128 { return complex128(pairAt(x, i)) }
	var state [n]complex128
	for i := range n {
		a[2*i] = -float32(math.Abs(float64(a[2*i])))
		state[i] = at(h, i)
	}
	want := make([]float64, rows*step)
	for r := range rows {
		delta[r*step] = float32(math.Abs(float64(delta[r*step])))
		dt, in := complex(float64(delta[r*step]), 0), complex(float64(u[r*step]), 0)
		want[r*step] = 0.5 * real(in)
		for i := range n {
			state[i] = cmplx.Exp(dt*at(a, i))*state[i] + dt*in*at(b[r*stride:], i)
			want[r*step] += 2 * real(at(c[r*stride:], i)*state[i])
		}
	}
	s := ComplexScan{Rows: rows, U: u, Delta: delta, Step: step, B: b, C: c, Stride: stride, A: a, Skip: 0.5}
	s.Run(y, h, nil)
	within(t, "y", y, want, 2e-6)
	for i := range n {
		within(t, "state", h[2*i:2*i+2], []float64{real(state[i]), imag(state[i])}, 2e-6)
	}
}
