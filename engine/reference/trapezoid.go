package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Trapezoid is the scan of Mamba-3, each head by itself. With k', v' those of the position before, and α = e^(A·dt),
//
//	S' = α·(S + (1-λ)·dt·Σ_r k'_r·v'_rᵀ) + λ·dt·Σ_r k_r·v_rᵀ,   y_r = S'ᵀ·q_r + D·v_r
//
// Backward runs through the positions from the last, with G the gradient of the state after a position, and H = α·G:
//
//	G += Σ_r q_r·dy_rᵀ,   dq_r += S'·dy_r,   dD += v_r·dy_r,   dv_r += D·dy_r
//	dk_r += λ·dt·G·v_r,   dv_r += λ·dt·Gᵀ·k_r,   d(λ·dt) = Σ_r k_rᵀ·G·v_r
//	dk'_r += (1-λ)·dt·H·v'_r,   dv'_r += (1-λ)·dt·Hᵀ·k'_r,   d((1-λ)·dt) = Σ_r k'_rᵀ·H·v'_r
//	d(A·dt) = Σ H·(S + (1-λ)·dt·Σ_r k'_r·v'_rᵀ),   G ← H
func (eng *Engine) Trapezoid(x engine.Trapezoid, r *engine.Rows, slots engine.TrapezoidSlots) *tensor.Tensor {
	n, p, H, R := x.KeyDim(), x.ValueDim(), x.Heads, x.Ranks
	y := eng.withLast(x.V, R*H*p)
	Q, K, V, ys := eng.values(x.Q), eng.values(x.K), eng.values(x.V), eng.values(y)
	A, dt, λ, D := eng.values(x.A), eng.values(x.Dt), eng.values(x.Lambda), eng.values(x.D)
	ss := eng.carry(slots.S, r, H*n*p)
	ks, vs := eng.carry(slots.K, r, R*H*n), eng.carry(slots.V, r, R*H*p)
	type place struct{ joined, after, k, v []float64 } // S + (1-λ)·dt·Σ k'·v'ᵀ, S', k' and v', of all heads
	places := make([]place, r.Total())
	// each calls f for every vector i, which belongs to rank i/H and head h = i%H, and every pair of components a, b.
	each := func(f func(h, i, a, b int)) {
		for i := range R * H {
			for a := range n {
				for b := range p {
					f(i%H, i, a, b)
				}
			}
		}
	}
	for row := range r.Count() {
		S, k, v := ss.after(row), ks.after(row), vs.after(row)
		for t := r.From(row); t < r.From(row)+r.Len(row); t++ {
			at := place{k: slices.Clone(k), v: slices.Clone(v)}
			each(func(h, i, a, b int) {
				S[(h*n+a)*p+b] += (1 - λ[t*H+h]) * dt[t*H+h] * at.k[i*n+a] * at.v[i*p+b]
			})
			at.joined = slices.Clone(S)
			for i := range S {
				S[i] *= math.Exp(A[t*H+i/(n*p)] * dt[t*H+i/(n*p)])
			}
			copy(k, K[t*R*H*n:])
			copy(v, V[t*R*H*p:])
			each(func(h, i, a, b int) { S[(h*n+a)*p+b] += λ[t*H+h] * dt[t*H+h] * k[i*n+a] * v[i*p+b] })
			for i := range R * H * p {
				ys[t*R*H*p+i] = D[i/p%H] * v[i]
			}
			each(func(h, i, a, b int) { ys[(t*R*H+i)*p+b] += Q[(t*R*H+i)*n+a] * S[(h*n+a)*p+b] })
			at.after = slices.Clone(S)
			places[t] = at
		}
	}
	states, inputs := slices.Concat(list{y}, ss.next, ks.next, vs.next), append(x.Along(), x.D)
	eng.record("Trapezoid", states, slices.Concat(inputs, ss.before, ks.before, vs.before), func() {
		dy, dQ, dK, dV, dD := eng.gradOf(y), eng.gradOf(x.Q), eng.gradOf(x.K), eng.gradOf(x.V), eng.gradOf(x.D)
		dA, ddt, dλ := eng.gradOf(x.A), eng.gradOf(x.Dt), eng.gradOf(x.Lambda)
		for row := range r.Count() {
			dS, G := ss.grads(row)
			dk, nextK := ks.grads(row)
			dv, nextV := vs.grads(row)
			G = slices.Clone(G)
			last := r.From(row) + r.Len(row) - 1
			for i, g := range nextK {
				dK[last*R*H*n+i] += g
			}
			for i, g := range nextV {
				dV[last*R*H*p+i] += g
			}
			for t := last; t >= r.From(row); t-- {
				at := &places[t]
				toK, toV := dk, dv // the gradients for the position before
				if t > r.From(row) {
					toK, toV = dK[(t-1)*R*H*n:], dV[(t-1)*R*H*p:]
				}
				late, early := make([]float64, H), make([]float64, H) // gradients of λ·dt and (1-λ)·dt
				for i := range R * H * p {
					g, h := dy[t*R*H*p+i], i/p%H
					dD[h] += V[t*R*H*p+i] * g
					dV[t*R*H*p+i] += D[h] * g
				}
				each(func(h, i, a, b int) {
					G[(h*n+a)*p+b] += Q[(t*R*H+i)*n+a] * dy[(t*R*H+i)*p+b]
					dQ[(t*R*H+i)*n+a] += at.after[(h*n+a)*p+b] * dy[(t*R*H+i)*p+b]
				})
				each(func(h, i, a, b int) {
					g, k, v := G[(h*n+a)*p+b], K[(t*R*H+i)*n+a], V[(t*R*H+i)*p+b]
					dK[(t*R*H+i)*n+a] += λ[t*H+h] * dt[t*H+h] * g * v
					dV[(t*R*H+i)*p+b] += λ[t*H+h] * dt[t*H+h] * g * k
					late[h] += g * k * v
				})
				for i := range G {
					h := t*H + i/(n*p)
					G[i] *= math.Exp(A[h] * dt[h])
					dA[h] += dt[h] * G[i] * at.joined[i]
					ddt[h] += A[h] * G[i] * at.joined[i]
				}
				each(func(h, i, a, b int) {
					g, k, v := G[(h*n+a)*p+b], at.k[i*n+a], at.v[i*p+b]
					toK[i*n+a] += (1 - λ[t*H+h]) * dt[t*H+h] * g * v
					toV[i*p+b] += (1 - λ[t*H+h]) * dt[t*H+h] * g * k
					early[h] += g * k * v
				})
				for h := range H {
					ddt[t*H+h] += λ[t*H+h]*late[h] + (1-λ[t*H+h])*early[h]
					dλ[t*H+h] += dt[t*H+h] * (late[h] - early[h])
				}
			}
			for i, g := range G {
				dS[i] += g
			}
		}
	})
	return y
}
