package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// LinearAttention is causal attention with φ(q)·φ(k) for weights (arXiv:2006.16236, §3), head by head, behind a past of
// which S = Σ φ(k)·vᵀ and Z = Σ φ(k) are known:
//
//	w[t, s] = φ(q_t)·φ(k_s) for s ≤ t,   y_t = N_t/c_t
//	N_t = φ(q_t)ᵀS + Σ_s w[t, s]·v_s,   c_t = φ(q_t)·Z + Σ_s w[t, s] + eps
//	S' = S + Σ_s φ(k_s)·v_sᵀ,   Z' = Z + Σ_s φ(k_s)
//
// Backward:
//
//	dN_t = dy_t/c_t,   dc_t = -dy_t·y_t/c_t,   dw[t, s] = dN_t·v_s + dc_t
//	dφ(q_t) = S dN_t + dc_t·Z + Σ_s dw[t, s]·φ(k_s),   dφ(k_s) = dS' v_s + dZ' + Σ_t dw[t, s]·φ(q_t)
//	dv_s = φ(k_s)ᵀdS' + Σ_t w[t, s]·dN_t,   dS = dS' + Σ_t φ(q_t)·dN_tᵀ,   dZ = dZ' + Σ_t dc_t·φ(q_t)
func (eng *Engine) oldLinearAttention(q, k, v *tensor.Tensor, state engine.LinearState,
	o engine.LinearOptions) (y *tensor.Tensor, next engine.LinearState) {
	batch, l, e, m := q.Dim(0), q.Dim(1), q.Dim(2)/o.Heads, v.Dim(2)/o.Heads
	y = eng.like(v)
	V, ys, size := eng.values(v), eng.values(y), batch*o.Heads*e
	S, Z := eng.start(state.S, size*m), eng.start(state.Z, size)
	Q, slopeQ := phi(o.Phi, eng.values(q))
	K, slopeK := phi(o.Phi, eng.values(k))
	// The components of head h at position t begin at keys in q and k, and at vals in v and y.
	keys := func(b, t, h int) int { return ((b*l+t)*o.Heads + h) * e }
	vals := func(b, t, h int) int { return ((b*l+t)*o.Heads + h) * m }
	// weight is w[t, s].
	weight := func(b, t, s, h int) float64 { return dot(Q[keys(b, t, h):][:e], K[keys(b, s, h):][:e]) }
	norms := make([]float64, batch*l*o.Heads) // c
	lastS, lastZ := slices.Clone(S), slices.Clone(Z)
	for bh := range batch * o.Heads {
		b, h := bh/o.Heads, bh%o.Heads
		for t := range l {
			query, out, norm := Q[keys(b, t, h):][:e], ys[vals(b, t, h):][:m], &norms[(b*l+t)*o.Heads+h]
			*norm = float64(o.Eps)
			for i, x := range query {
				*norm += x * Z[bh*e+i]
				for j := range m {
					out[j] += x * S[(bh*e+i)*m+j]
				}
			}
			for s := range t + 1 {
				w := weight(b, t, s, h)
				*norm += w
				for j := range m {
					out[j] += w * V[vals(b, s, h)+j]
				}
			}
			for j := range m {
				out[j] /= *norm
			}
			for i := range e {
				x := K[keys(b, t, h)+i]
				lastZ[bh*e+i] += x
				for j := range m {
					lastS[(bh*e+i)*m+j] += x * V[vals(b, t, h)+j]
				}
			}
		}
	}
	next = engine.LinearState{S: eng.next(state.S, lastS), Z: eng.next(state.Z, lastZ)}
	eng.record("LinearAttention", list{y, next.S, next.Z}, list{q, k, v, state.S, state.Z}, func() {
		dy, dq, dk, dv := eng.gradOf(y), eng.gradOf(q), eng.gradOf(k), eng.gradOf(v)
		dS, dZ := eng.grad(state.S, size*m), eng.grad(state.Z, size)
		dlastS, dlastZ := eng.grad(next.S, size*m), eng.grad(next.Z, size)
		for i, v := range dlastS {
			dS[i] += v
		}
		for i, v := range dlastZ {
			dZ[i] += v
		}
		for bh := range batch * o.Heads {
			b, h := bh/o.Heads, bh%o.Heads
			for t := range l {
				at, out, norm := keys(b, t, h), vals(b, t, h), norms[(b*l+t)*o.Heads+h]
				dN, dnorm := make([]float64, m), 0.0
				for j := range m {
					dN[j] = dy[out+j] / norm
					dnorm -= dN[j] * ys[out+j]
				}
				for i := range e {
					place := bh*e + i
					dq[at+i] += slopeQ[at+i] * (dot(S[place*m:][:m], dN) + dnorm*Z[place])
					dk[at+i] += slopeK[at+i] * (dot(dlastS[place*m:][:m], V[out:][:m]) + dlastZ[place])
					dZ[place] += dnorm * Q[at+i]
					for j := range m {
						dS[place*m+j] += Q[at+i] * dN[j]
						dv[out+j] += K[at+i] * dlastS[place*m+j]
					}
				}
				for s := range t + 1 {
					key, value := keys(b, s, h), vals(b, s, h)
					w, dw := weight(b, t, s, h), dot(dN, V[value:][:m])+dnorm
					for i := range e {
						dq[at+i] += slopeQ[at+i] * dw * K[key+i]
						dk[key+i] += slopeK[key+i] * dw * Q[at+i]
					}
					for j := range m {
						dv[value+j] += w * dN[j]
					}
				}
			}
		}
	})
	return y, next
}

// phi is the feature map f of the numbers x, and its slope there:
//
//	elu1: x + 1 for x > 0, else e^x;   relu: max(x, 0);   relu2: max(x, 0)²;   softplus: log(1 + e^x)
func phi(f engine.FeatureMap, x []float64) (y, slope []float64) {
	y, slope = make([]float64, len(x)), make([]float64, len(x))
	for i, v := range x {
		switch {
		case f == engine.PhiSoftplus:
			y[i], slope[i] = max(v, 0)+math.Log1p(math.Exp(-math.Abs(v))), sigmoid(v)
		case f == engine.ReLU2 && v > 0:
			y[i], slope[i] = v*v, 2*v
		case f == engine.ReLU && v > 0:
			y[i], slope[i] = v, 1
		case f == engine.ELU1 && v > 0:
			y[i], slope[i] = v+1, 1
		case f == engine.ELU1:
			y[i], slope[i] = math.Exp(v), math.Exp(v)
		}
	}
	return y, slope
}
