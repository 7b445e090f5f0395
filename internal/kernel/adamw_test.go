package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestAdamW(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	const n = 33
	p, m, v := normals(rng, n), make([]float32, n), make([]float32, n)
	p64, m64, v64 := wide(p), make([]float64, n), make([]float64, n)
	s := AdamWStep{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, GradScale: 0.5}
	for step := 1; step <= 20; step++ {
		s.Correct1, s.Correct2 = 1-math.Pow(s.Beta1, float64(step)), 1-math.Pow(s.Beta2, float64(step))
		g := normals(rng, n)
		g[0] = 0 // without a gradient there is only decay
		for i, v := range g {
			gi := float64(v) * s.GradScale
			m64[i] = s.Beta1*m64[i] + (1-s.Beta1)*gi
			v64[i] = s.Beta2*v64[i] + (1-s.Beta2)*gi*gi
			p64[i] = p64[i]*(1-s.LR*s.Decay) - s.LR*(m64[i]/s.Correct1)/(math.Sqrt(v64[i]/s.Correct2)+s.Eps)
		}
		AdamW(p, m, v, g, &s)
		for i, v := range g {
			if v != 0 {
				t.Fatalf("gradient %d is still %v", i, v)
			}
		}
	}
	within(t, "p", p, p64, 1e-6)
	within(t, "m", m, m64, 1e-6)
	within(t, "v", v, v64, 1e-6)
}

func TestSumSquares(t *testing.T) {
	if got := SumSquares([]float32{3, -4, 12}); got != 169 {
		t.Errorf("got %v, want 169", got)
	}
	if got := SumSquares([]float32{1e30, 1e-30, 1e30}); math.Abs(got/2e60-1) > 1e-6 { // beyond float32
		t.Errorf("got %v, want 2e60", got)
	}
	if SumSquares(nil) != 0 {
		t.Error("of nothing: not 0")
	}
}
