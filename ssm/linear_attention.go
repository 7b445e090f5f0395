package ssm

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// LinearAttention is causal attention with phi(q)·phi(k) in place of exp(q·k), one head:
//
//	y_t = Σ_{s≤t} (phi(q_t)·phi(k_s)) v_s / (Σ_{s≤t} phi(q_t)·phi(k_s) + Epsilon)
//
// with q and k (l, e), v (l, m). The sums over s can be updated step by step, which makes it a recurrent network whose
// state is a matrix. H3 builds on that. Katharopoulos et al., Transformers are RNNs, arXiv:2006.16236, §3. Its release
// has phi = [ELU1] and Epsilon = 1e-6.
type LinearAttention struct {
	Phi     func(x float64) float64
	Epsilon float64
}

// ELU1 returns elu(x) + 1: x + 1 for x > 0, otherwise exp(x).
func ELU1(x float64) float64 {
	if x > 0 {
		return x + 1
	}
	return math.Exp(x)
}

// Attend returns y (l, m) by the definition, in l² steps.
func (a *LinearAttention) Attend(q, k, v [][]float64) (y [][]float64) {
	y = make([][]float64, len(q))
	for t := range q {
		y[t] = make([]float64, len(v[t]))
		norm := a.Epsilon
		for s := range t + 1 {
			w := floats.Dot(a.features(q[t]), a.features(k[s]))
			floats.AddScaled(y[t], w, v[s])
			norm += w
		}
		floats.Scale(1/norm, y[t])
	}
	return y
}

// Scan returns y (l, m) step by step from the state S (e, m), the sum of phi(k_s) v_sᵀ, and z (e), the sum of phi(k_s).
// It replaces both by their values after the last step.
func (a *LinearAttention) Scan(S [][]float64, z []float64, q, k, v [][]float64) (y [][]float64) {
	y = make([][]float64, len(q))
	for t := range q {
		y[t] = make([]float64, len(v[t]))
		phiQ, phiK := a.features(q[t]), a.features(k[t])
		floats.Add(z, phiK)
		for i, row := range S {
			floats.AddScaled(row, phiK[i], v[t])
			floats.AddScaled(y[t], phiQ[i], row)
		}
		floats.Scale(1/(floats.Dot(phiQ, z)+a.Epsilon), y[t])
	}
	return y
}

func (a *LinearAttention) features(x []float64) []float64 {
	f := make([]float64, len(x))
	for i, v := range x {
		f[i] = a.Phi(v)
	}
	return f
}
