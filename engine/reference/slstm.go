package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SLSTM is the scalar memory of xLSTM (arXiv:2405.04517, §2.2): see engine.SLSTM.
//
// Backward runs through the positions from the last, with η, G, g, γ the gradients of y, c, n, m after a position:
//
//	η += dy,   do = η·σ'(o)·c/n,   G += η·σ(o)/n,   g -= η·σ(o)·c/n²
//	dz = G·ī·(1-tanh²z),   dī = ī·(G·tanh z + g),   dā = ā·(G·c[t-1] + g·n[t-1]),   γ -= dī + dā
//	di = dī, df' = dā, and γ goes to the larger of i and f' + m[t-1];   df = df'·σ(-f) for f < 15
//	G ← ā·G,   g ← ā·g,   γ ← dā + (γ where f' + m[t-1] is the larger),   η ← Rᵀ·(di, df, dz, do)
//
// At a first position dā is zero if f' + m[t-1] is above i.
func (eng *Engine) SLSTM(x engine.SLSTM, r *engine.Rows, slots engine.SLSTMSlots) *tensor.Tensor {
	d, n := x.X.Dim(-1), x.HeadDim()
	y := eng.like(x.X)
	xs, R, bias, ys := eng.values(x.X), eng.values(x.R), eng.values(x.Bias), eng.values(y)
	var states [4]*carried
	for i, s := range slots.All() {
		states[i] = eng.carry(s, r, d)
	}
	// weight returns the indices in W and in R of the weight of gate g of channel c for input k of its head.
	weight := func(g, c, k int) (w, r int) { return c*n + k, (c/n*n+k)*4*n + g*n + c%n }
	places := make([]slstmPlace, r.Total()*d)
	for row := range r.Count() {
		Y, C, N, M := states[0].after(row), states[1].after(row), states[2].after(row), states[3].after(row)
		for t := r.From(row); t < r.From(row)+r.Len(row); t++ {
			fresh := !slices.ContainsFunc(N, func(v float64) bool { return v != 0 })
			before := slices.Clone(Y)
			for c := range d {
				p := &places[t*d+c]
				for g := range 4 {
					p.raw[g] = bias[(c/n*4+g)*n+c%n]
					for k := range n {
						w, r := weight(g, c, k)
						p.raw[g] += eng.values(x.W[g])[w]*xs[t*d+c/n*n+k] + R[r]*before[c/n*n+k]
					}
				}
				p.y, p.c, p.n = before[c], C[c], N[c]
				p.step(M[c], fresh)
				C[c], N[c], M[c] = p.keep*C[c]+p.write*math.Tanh(p.raw[2]), p.keep*N[c]+p.write, p.m
				Y[c] = sigmoid(p.raw[3]) * C[c] / N[c]
				ys[t*d+c] = Y[c]
			}
		}
	}
	outputs, inputs := list{y}, x.Inputs()
	for _, s := range states {
		outputs, inputs = append(outputs, s.next...), append(inputs, s.before...)
	}
	eng.record("SLSTM", outputs, inputs, func() {
		dy, dX, dR, dBias := eng.gradOf(y), eng.gradOf(x.X), eng.gradOf(x.R), eng.gradOf(x.Bias)
		for row := range r.Count() {
			var to, g [4][]float64
			for i, s := range states {
				to[i], g[i] = s.grads(row)
				g[i] = slices.Clone(g[i])
			}
			for t := r.From(row) + r.Len(row) - 1; t >= r.From(row); t-- {
				through := make([]float64, d) // Rᵀ·(di, df, dz, do)
				for c := range d {
					p := &places[t*d+c]
					for gate, v := range p.back(g[0][c]+dy[t*d+c], &g[1][c], &g[2][c], &g[3][c]) {
						dBias[(c/n*4+gate)*n+c%n] += v
						for k := range n {
							w, r := weight(gate, c, k)
							dX[t*d+c/n*n+k] += v * eng.values(x.W[gate])[w]
							eng.gradOf(x.W[gate])[w] += v * xs[t*d+c/n*n+k]
							dR[r] += v * places[t*d+c/n*n+k].y
							through[c/n*n+k] += v * R[r]
						}
					}
				}
				g[0] = through
			}
			for i := range g {
				for c, v := range g[i] {
					to[i][c] += v
				}
			}
		}
	})
	return y
}

// slstmPlace holds the values of one channel at one position. y, c and n are those before the position.
type slstmPlace struct {
	raw               [4]float64 // i, f, z and o before their activation functions
	y, c, n           float64
	m, keep, write    float64 // m after the position, ā and ī
	larger, unbounded bool    // f' + m[t-1] is the larger, and is used
}

// step computes the gates, given m before the position.
func (p *slstmPlace) step(m float64, fresh bool) {
	kept := m - activate(engine.Softplus, -math.Min(p.raw[1], engine.SLSTMForgets))
	p.larger = !fresh && kept >= p.raw[0]
	p.m = p.raw[0]
	if p.larger {
		p.m = kept
	}
	p.unbounded = kept <= p.m
	p.keep, p.write = math.Exp(math.Min(0, kept-p.m)), math.Exp(p.raw[0]-p.m)
}

// back turns the gradients of y, c, n and m after the position into those of the gates and of c, n and m before it.
func (p *slstmPlace) back(η float64, G, g, γ *float64) (d [4]float64) {
	z, o := math.Tanh(p.raw[2]), sigmoid(p.raw[3])
	c, n := p.keep*p.c+p.write*z, p.keep*p.n+p.write
	d[3] = η * o * (1 - o) * c / n
	*G += η * o / n
	*g -= η * o * c / (n * n)
	d[2] = *G * p.write * (1 - z*z)
	dkeep, dwrite := p.keep*(*G*p.c+*g*p.n), p.write*(*G*z+*g)
	if !p.unbounded {
		dkeep = 0
	}
	*γ -= dkeep + dwrite
	d[0], d[1] = dwrite, dkeep
	if p.larger {
		d[1] += *γ
		*γ += dkeep
	} else {
		d[0] += *γ
		*γ = dkeep
	}
	if p.raw[1] < engine.SLSTMForgets {
		d[1] *= sigmoid(-p.raw[1])
	} else {
		d[1] = 0
	}
	*G *= p.keep
	*g *= p.keep
	return d
}
