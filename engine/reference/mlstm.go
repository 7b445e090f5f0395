package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// MLSTM is the matrix memory of xLSTM (arXiv:2405.04517, §2.3), each head by itself:
//
//	m' = max(f + m, i),   a = e^(f+m-m'),   w = e^(i-m'),   C' = a·C + w·k·vᵀ,   n' = a·n + w·k
//	s = n'·q,   D = max(|s|, e^-m') + ε,   y = C'ᵀ·q/D
//
// Backward runs through the positions from the last, with G, g and γ the gradients of C, n and m after a position:
//
//	dN = dy/D,   dD = -dy·y/D,   ds = dD·sign(s) where |s| is the larger, else γ -= dD·e^-m'
//	G += q·dNᵀ,   g += ds·q,   dq += C'·dN + ds·n',   dk += w·(G·v + g),   dv += w·Gᵀ·k
//	da = a·(Σ G·C + g·n),   dw = w·(kᵀ·G·v + g·k),   df += da,   di += dw,   γ -= da + dw
//	df += γ where f + m is the larger, else di += γ;   G ← a·G,   g ← a·g,   γ ← da + (γ where f + m is the larger)
func (eng *Engine) MLSTM(x engine.MLSTM, r *engine.Rows, slots engine.MLSTMSlots) *tensor.Tensor {
	dk, dv := x.KeyDim(), x.ValueDim()
	y := eng.withLast(x.V, x.Heads*dv)
	places := make([]mlstmPlace, r.Total()*x.Heads)
	cs, ns := eng.carry(slots.C, r, x.Heads*dk*dv), eng.carry(slots.N, r, x.Heads*dk)
	ms := eng.carry(slots.M, r, x.Heads)
	for row := range r.Count() {
		for p := r.From(row); p < r.From(row)+r.Len(row); p++ {
			for h := range x.Heads {
				C, n, m := cs.after(row)[h*dk*dv:][:dk*dv], ns.after(row)[h*dk:][:dk], &ms.after(row)[h]
				at := eng.mlstmPlace(&x, p, h)
				at.C, at.n = slices.Clone(C), slices.Clone(n)
				at.kept = at.f+*m >= at.i
				next := at.i
				if at.kept {
					next = at.f + *m
				}
				at.a, at.w = math.Exp(at.f+*m-next), math.Exp(at.i-next)
				*m, at.floor = next, math.Exp(-next)
				num := make([]float64, dv)
				for i := range dk {
					n[i] = at.a*n[i] + at.w*at.k[i]
					at.s += n[i] * at.q[i]
					for j := range dv {
						C[i*dv+j] = at.a*C[i*dv+j] + at.w*at.k[i]*at.v[j]
						num[j] += C[i*dv+j] * at.q[i]
					}
				}
				at.den = math.Max(math.Abs(at.s), at.floor) + x.Eps
				for j, v := range num {
					eng.values(y)[(p*x.Heads+h)*dv+j] = v / at.den
				}
				places[p*x.Heads+h] = at
			}
		}
	}
	states := slices.Concat(list{y}, cs.next, ns.next, ms.next)
	eng.record("MLSTM", states, slices.Concat(x.Inputs(), cs.before, ns.before, ms.before), func() {
		to := mlstmGrads{eng.gradOf(x.Q), eng.gradOf(x.K), eng.gradOf(x.V), eng.gradOf(x.I), eng.gradOf(x.F)}
		for row := range r.Count() {
			dC, G := cs.grads(row)
			dn, g := ns.grads(row)
			dm, γ := ms.grads(row)
			G, g, γ = slices.Clone(G), slices.Clone(g), slices.Clone(γ)
			last := r.From(row) + r.Len(row) - 1
			for p := last; p >= r.From(row); p-- {
				for h := range x.Heads {
					head := p*x.Heads + h
					places[head].back(&to, head, eng.values(y)[head*dv:][:dv], eng.gradOf(y)[head*dv:][:dv],
						G[h*dk*dv:][:dk*dv], g[h*dk:][:dk], &γ[h])
				}
			}
			for _, x := range [][2][]float64{{dC, G}, {dn, g}, {dm, γ}} {
				for i, v := range x[1] {
					x[0][i] += v
				}
			}
		}
	})
	return y
}

// mlstmPlace holds the inputs and intermediate values of one head at one position. C and n are those before the
// position.
type mlstmPlace struct {
	q, k, v, C, n        []float64
	i, f, a, w, s, floor float64
	den                  float64
	kept                 bool // f + m is the larger
}

type mlstmGrads struct{ q, k, v, i, f []float64 }

func (eng *Engine) mlstmPlace(x *engine.MLSTM, p, h int) mlstmPlace {
	dk, dv, head := x.KeyDim(), x.ValueDim(), p*x.Heads+h
	return mlstmPlace{q: eng.values(x.Q)[head*dk:][:dk], k: eng.values(x.K)[head*dk:][:dk],
		v: eng.values(x.V)[head*dv:][:dv], i: eng.values(x.I)[head], f: eng.values(x.F)[head]}
}

// back adds to the gradients of one head at one position. It turns the gradients of the state after the position into
// those of the state before it.
func (at *mlstmPlace) back(to *mlstmGrads, head int, y, dy, G, g []float64, γ *float64) {
	dk, dv := len(at.k), len(at.v)
	dD := 0.0
	for j, v := range dy {
		dD -= v * y[j] / at.den
	}
	ds := dD
	switch {
	case math.Abs(at.s) < at.floor:
		ds = 0
		*γ -= dD * at.floor
	case at.s < 0:
		ds = -dD
	}
	da, dw := 0.0, 0.0
	for i := range dk {
		n := at.a*at.n[i] + at.w*at.k[i]
		g[i] += ds * at.q[i]
		to.q[head*dk+i] += ds * n
		to.k[head*dk+i] += at.w * g[i]
		da += at.a * g[i] * at.n[i]
		dw += at.w * g[i] * at.k[i]
		g[i] *= at.a
		for j := range dv {
			e := i*dv + j
			G[e] += at.q[i] * dy[j] / at.den
			to.q[head*dk+i] += (at.a*at.C[e] + at.w*at.k[i]*at.v[j]) * dy[j] / at.den
			to.k[head*dk+i] += at.w * G[e] * at.v[j]
			to.v[head*dv+j] += at.w * G[e] * at.k[i]
			da += at.a * G[e] * at.C[e]
			dw += at.w * G[e] * at.k[i] * at.v[j]
			G[e] *= at.a
		}
	}
	*γ -= da + dw
	to.f[head] += da
	to.i[head] += dw
	if at.kept {
		to.f[head] += *γ
		*γ += da
	} else {
		to.i[head] += *γ
		*γ = da
	}
}
