package reference

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Experts sums MLPs. For each position and each expert e with a weight w ≠ 0, with U = FC1, G = Gate, D = FC2 of e:
//
//	h = U·x,   g = G·x,   m = h ⊙ a(g), or a(h) without gates,   y += w·D·m
//
// Backward, for each of these experts:
//
//	dw += dy·D·m,   dm = w·Dᵀ·dy,   dD += w·dy·mᵀ,   dh = dm ⊙ a(g), or dm ⊙ a'(h),   dg = dm ⊙ h ⊙ a'(g)
//	dU += dh·xᵀ,   dG += dg·xᵀ,   dx += Uᵀ·dh + Gᵀ·dg
func (eng *Engine) Experts(x, weights *tensor.Tensor, of engine.Experts) *tensor.Tensor {
	d, f, count := x.Dim(-1), of.FC1[0].Dim(0), len(of.FC1)
	y := eng.like(x)
	xs, ws, ys := eng.values(x), eng.values(weights), eng.values(y)
	gated := len(of.Gate) > 0
	// each calls visit for every position and every expert that it uses, with their h, g and m.
	each := func(visit func(p, e int, h, g, m []float64)) {
		for i, w := range ws {
			if w == 0 {
				continue
			}
			p, e := i/count, i%count
			h, g, m := make([]float64, f), make([]float64, f), make([]float64, f)
			for j := range m {
				h[j] = dot(eng.values(of.FC1[e])[j*d:][:d], xs[p*d:])
				if gated {
					g[j] = dot(eng.values(of.Gate[e])[j*d:][:d], xs[p*d:])
					m[j] = h[j] * activate(of.Activation, g[j])
				} else {
					m[j] = activate(of.Activation, h[j])
				}
			}
			visit(p, e, h, g, m)
		}
	}
	each(func(p, e int, _, _, m []float64) {
		for i := range d {
			ys[p*d+i] += ws[p*count+e] * dot(eng.values(of.FC2[e])[i*f:][:f], m)
		}
	})
	inputs := slices.Concat(list{x, weights}, of.FC1, of.Gate, of.FC2)
	eng.record("Experts", list{y}, inputs, func() {
		dx, dws, dys := eng.gradOf(x), eng.gradOf(weights), eng.gradOf(y)
		each(func(p, e int, h, g, m []float64) {
			w, dy := ws[p*count+e], dys[p*d:][:d]
			U, D, dU, dD := eng.values(of.FC1[e]), eng.values(of.FC2[e]), eng.gradOf(of.FC1[e]), eng.gradOf(of.FC2[e])
			var G, dG []float64
			if gated {
				G, dG = eng.values(of.Gate[e]), eng.gradOf(of.Gate[e])
			}
			for j := range f {
				back := 0.0 // (Dᵀ·dy)_j
				for i, v := range dy {
					back += D[i*f+j] * v
					dD[i*f+j] += w * v * m[j]
				}
				dws[p*count+e] += back * m[j]
				dm := w * back
				if !gated {
					dh := dm * slope(of.Activation, h[j])
					for i := range d {
						dU[j*d+i] += dh * xs[p*d+i]
						dx[p*d+i] += dh * U[j*d+i]
					}
					continue
				}
				dh, dg := dm*activate(of.Activation, g[j]), dm*h[j]*slope(of.Activation, g[j])
				for i := range d {
					dU[j*d+i] += dh * xs[p*d+i]
					dG[j*d+i] += dg * xs[p*d+i]
					dx[p*d+i] += dh*U[j*d+i] + dg*G[j*d+i]
				}
			}
		})
	})
	return y
}
