package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// LinearAttention is causal attention with weights φ(q)·φ(k) (arXiv:2006.16236, §3), head by head. It continues from S
// = Σ φ(k)·vᵀ and Z = Σ φ(k) of the past:
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
func (eng *Engine) LinearAttention(q, k, v *tensor.Tensor, o engine.LinearOptions, r *engine.Rows,
	s, z engine.Slots) *tensor.Tensor {
	e, m := q.Dim(-1)/o.Heads, v.Dim(-1)/o.Heads
	y := eng.like(v)
	V, ys := eng.values(v), eng.values(y)
	Q, slopeQ := phi(o.Phi, eng.values(q))
	K, slopeK := phi(o.Phi, eng.values(k))
	sums, norms := eng.carry(s, r, o.Heads*e*m), eng.carry(z, r, o.Heads*e)
	before := make([][2][]float64, r.Count()) // S and Z before each row
	c := make([]float64, r.Total()*o.Heads)
	// The components of head h at position t start at keys in q and k, and at vals in v and y; t counts through all
	// rows.
	keys := func(t, h int) int { return (t*o.Heads + h) * e }
	vals := func(t, h int) int { return (t*o.Heads + h) * m }
	// weight returns w[t, s].
	weight := func(t, s, h int) float64 { return dot(Q[keys(t, h):][:e], K[keys(s, h):][:e]) }
	// each calls f for every head and position of the rows, with the first position of the row.
	each := func(f func(row, h, t, first int)) {
		for row := range r.Count() {
			for h := range o.Heads {
				for t := range r.Len(row) {
					f(row, h, r.From(row)+t, r.From(row))
				}
			}
		}
	}
	for row := range before {
		before[row] = [2][]float64{slices.Clone(sums.after(row)), slices.Clone(norms.after(row))}
	}
	each(func(row, h, t, first int) {
		S, Z, lastS, lastZ := before[row][0], before[row][1], sums.after(row), norms.after(row)
		query, out, norm := Q[keys(t, h):][:e], ys[vals(t, h):][:m], &c[t*o.Heads+h]
		*norm = float64(o.Eps)
		for i, x := range query {
			*norm += x * Z[h*e+i]
			addTimes(out, x, S[(h*e+i)*m:][:m])
		}
		for s := first; s <= t; s++ {
			w := weight(t, s, h)
			*norm += w
			addTimes(out, w, V[vals(s, h):][:m])
		}
		for j := range m {
			out[j] /= *norm
		}
		for i := range e {
			x := K[keys(t, h)+i]
			lastZ[h*e+i] += x
			addTimes(lastS[(h*e+i)*m:][:m], x, V[vals(t, h):][:m])
		}
	})
	states := append(append(list{y}, sums.next...), norms.next...)
	inputs := append(append(list{q, k, v}, sums.before...), norms.before...)
	eng.record("LinearAttention", states, inputs, func() {
		dy, dq, dk, dv := eng.gradOf(y), eng.gradOf(q), eng.gradOf(k), eng.gradOf(v)
		grads := make([][4][]float64, r.Count()) // of S and Z before each row, and after it
		for row := range grads {
			dS, dlastS := sums.grads(row)
			dZ, dlastZ := norms.grads(row)
			add(dS, dlastS)
			add(dZ, dlastZ)
			grads[row] = [4][]float64{dS, dZ, dlastS, dlastZ}
		}
		each(func(row, h, t, first int) {
			S, Z := before[row][0], before[row][1]
			dS, dZ, dlastS, dlastZ := grads[row][0], grads[row][1], grads[row][2], grads[row][3]
			at, out, norm := keys(t, h), vals(t, h), c[t*o.Heads+h]
			dN, dnorm := make([]float64, m), 0.0
			for j := range m {
				dN[j] = dy[out+j] / norm
				dnorm -= dN[j] * ys[out+j]
			}
			for i := range e {
				place := h*e + i
				dq[at+i] += slopeQ[at+i] * (dot(S[place*m:][:m], dN) + dnorm*Z[place])
				dk[at+i] += slopeK[at+i] * (dot(dlastS[place*m:][:m], V[out:][:m]) + dlastZ[place])
				dZ[place] += dnorm * Q[at+i]
				addTimes(dS[place*m:][:m], Q[at+i], dN)
				addTimes(dv[out:][:m], K[at+i], dlastS[place*m:][:m])
			}
			for s := first; s <= t; s++ {
				key, value := keys(s, h), vals(s, h)
				w, dw := weight(t, s, h), dot(dN, V[value:][:m])+dnorm
				for i := range e {
					dq[at+i] += slopeQ[at+i] * dw * K[key+i]
					dk[key+i] += slopeK[key+i] * dw * Q[at+i]
				}
				addTimes(dv[value:][:m], w, dN)
			}
		})
	})
	return y
}

// phi returns the feature map f of the numbers x, and its slope there:
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
