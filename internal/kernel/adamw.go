package kernel

import "math"

// AdamWStep holds the scalars of one update (arXiv:1711.05101, as PyTorch computes it).
type AdamWStep struct {
	LR, Beta1, Beta2, Eps, Decay float64
	Correct1, Correct2           float64 // 1-β1^t, 1-β2^t
	GradScale                    float64 // the gradient is multiplied by this first, for clipping
}

// AdamW updates parameters p and moments m, v from gradients g, which it sets to zero:
//
//	m ← β1 m + (1-β1) g,  v ← β2 v + (1-β2) g²,
//	p ← p(1 - lr·decay) - lr · (m/(1-β1^t)) / (√(v/(1-β2^t)) + ε)
func AdamW(p, m, v, g []float32, s *AdamWStep) {
	b1, b2, gs := float32(s.Beta1), float32(s.Beta2), float32(s.GradScale)
	keep, step := float32(1-s.LR*s.Decay), float32(s.LR/s.Correct1)
	root, eps := float32(1/math.Sqrt(s.Correct2)), float32(s.Eps)
	m, v, g = m[:len(p)], v[:len(p)], g[:len(p)]
	if cpu.has(adamWCode) {
		k := [...]float32{b1, 1 - b1, b2, 1 - b2, gs, keep, step, root, eps}
		for lo := 0; lo < len(p); lo += callLength {
			vecAdamW(min(callLength, len(p)-lo), &p[lo], &m[lo], &v[lo], &g[lo], &k[0])
		}
		return
	}
	for i := range p {
		gi := g[i] * gs
		g[i] = 0
		mi := float32(b1*m[i]) + float32((1-b1)*gi)
		vi := float32(b2*v[i]) + float32((1-b2)*gi*gi)
		m[i], v[i] = mi, vi
		p[i] = float32(p[i]*keep) - step*mi/(float32(float32(math.Sqrt(float64(vi)))*root)+eps)
	}
}

// SumSquares returns Σ x² in float64.
func SumSquares(x []float32) float64 {
	var s float64
	if cpu.has(sumSquaresCode) {
		for lo := 0; lo < len(x); lo += callLength {
			s += vecSumSquares(min(callLength, len(x)-lo), &x[lo])
		}
		return s
	}
	for _, v := range x {
		s += float64(float64(v) * float64(v))
	}
	return s
}
