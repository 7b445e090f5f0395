package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// DeltaRule is a recurrence whose matrix is a diagonal plus a matrix of rank one, each head by itself, with D =
// Diag(e^g):
//
//	u = Sᵀ·b,   S' = D·S + a·uᵀ + k·vᵀ,   y = S'ᵀ·q
//
// With β, a = -β·k, b = e^g ⊙ k, and v is replaced by β·v.
//
// Backward runs through the positions from the last, with G the gradient of the state after a position:
//
//	G += q·dyᵀ,   dq += S'·dy,   dk += G·v,   dv += Gᵀ·k,   da += G·u,   du = Gᵀ·a,   db += S·du
//	dg += e^g·Σ_j G·S,   G ← D·G + b·duᵀ
func (eng *Engine) DeltaRule(x engine.Delta, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	dk, dv := x.KeyDim(), x.ValueDim()
	y := eng.withLast(x.V, x.Heads*dv)
	ys := eng.values(y)
	places := make([]deltaPlace, r.Total()*x.Heads)
	before := make([][]float64, r.Total())
	states := eng.carry(slots, r, x.Heads*dk*dv)
	for row := range r.Count() {
		S := states.after(row)
		for p := r.From(row); p < r.From(row)+r.Len(row); p++ {
			before[p] = slices.Clone(S)
			for h := range x.Heads {
				at := eng.deltaPlace(&x, p, h)
				places[p*x.Heads+h] = at
				s, was := S[h*dk*dv:][:dk*dv], before[p][h*dk*dv:][:dk*dv]
				u := deltaRead(was, at.b, dv)
				for i := range dk {
					for j := range dv {
						s[i*dv+j] = at.kept(i, was[i*dv+j]) + at.a[i]*u[j] + at.beta*at.k[i]*at.v[j]
						ys[p*x.Heads*dv+h*dv+j] += at.q[i] * s[i*dv+j]
					}
				}
			}
		}
	}
	eng.recordRows("DeltaRule", list{y}, x.Inputs(), states, func() {
		dys, to := eng.gradOf(y), eng.deltaGrads(&x)
		for row := range r.Count() {
			ds, dnext := states.grads(row)
			all := slices.Clone(dnext)
			last := r.From(row) + r.Len(row) - 1
			for p := last; p >= r.From(row); p-- {
				for h := range x.Heads {
					at := &places[p*x.Heads+h]
					G, was := all[h*dk*dv:][:dk*dv], before[p][h*dk*dv:][:dk*dv]
					u, du := deltaRead(was, at.b, dv), make([]float64, dv)
					var d deltaPlace // gradients
					d.make(dk, dv)
					for i := range dk {
						for j := range dv {
							n := i*dv + j
							dy := dys[p*x.Heads*dv+h*dv+j]
							d.q[i] += (at.kept(i, was[n]) + at.a[i]*u[j] + at.beta*at.k[i]*at.v[j]) * dy
							G[n] += at.q[i] * dy
							d.k[i] += G[n] * at.beta * at.v[j]
							d.v[j] += G[n] * at.beta * at.k[i]
							d.beta += G[n] * at.k[i] * at.v[j]
							d.a[i] += G[n] * u[j]
							du[j] += G[n] * at.a[i]
							d.decay[i] += at.kept(i, was[n]) * G[n]
						}
					}
					for i := range dk {
						for j := range dv {
							n := i*dv + j
							d.b[i] += was[n] * du[j]
							G[n] = at.kept(i, G[n]) + at.b[i]*du[j]
						}
					}
					to.add(&x, p, h, at, &d)
				}
			}
			for i, v := range all {
				ds[i] += v
			}
		}
	})
	return y
}

// deltaPlace holds the inputs of one head at one position, or their gradients. decay is e^g of each row, or the
// gradient of g; beta is 1 if there is no β.
type deltaPlace struct {
	q, k, a, b, decay, v []float64
	beta                 float64
}

func (d *deltaPlace) make(dk, dv int) {
	for _, x := range []*[]float64{&d.q, &d.k, &d.a, &d.b, &d.decay} {
		*x = make([]float64, dk)
	}
	d.v = make([]float64, dv)
}

// kept returns x, an element of row i of a state, times the decay. A decay of 0 gives 0 even if x is not finite.
func (d *deltaPlace) kept(i int, x float64) float64 {
	if d.decay[i] == 0 {
		return 0
	}
	return d.decay[i] * x
}

// deltaRead returns Sᵀ·b.
func deltaRead(s, b []float64, dv int) []float64 {
	u := make([]float64, dv)
	for i, w := range b {
		if w == 0 {
			continue // do not read elements that may not be finite
		}
		for j := range u {
			u[j] += w * s[i*dv+j]
		}
	}
	return u
}

// deltaIndex returns the indices of component i of head h at position p: in G, in tensors with key heads, and in
// tensors with heads.
func deltaIndex(x *engine.Delta, p, h, i int) (decay, key, head int) {
	dk := x.KeyDim()
	key, head = (p*x.KeyHeads+x.KeyHead(h))*dk+i, (p*x.Heads+h)*dk+i
	if x.ByRow() {
		return head, key, head
	}
	return p*x.Heads + h, key, head
}

func (eng *Engine) deltaPlace(x *engine.Delta, p, h int) (d deltaPlace) {
	d.make(x.KeyDim(), x.ValueDim())
	q, k, g, a, b := eng.values(x.Q), eng.values(x.K), eng.values(x.G), eng.values(x.A), eng.values(x.B)
	copy(d.v, eng.values(x.V)[(p*x.Heads+h)*len(d.v):])
	d.beta = 1
	if x.Beta != nil {
		d.beta = eng.values(x.Beta)[p*x.Heads+h]
	}
	for i := range d.k {
		decay, key, head := deltaIndex(x, p, h, i)
		d.q[i], d.k[i], d.decay[i] = q[key], k[key], math.Exp(g[decay])
		if x.A != nil {
			d.a[i], d.b[i] = a[head], b[head]
		} else if x.Beta != nil {
			d.a[i], d.b[i] = -d.beta*d.k[i], d.decay[i]*d.k[i]
		}
	}
	return d
}

// deltaGrads holds the gradients of the inputs, with scratch for inputs that are nil.
type deltaGrads struct{ q, k, v, g, beta, a, b []float64 }

func (eng *Engine) deltaGrads(x *engine.Delta) *deltaGrads {
	heads, wide := x.V.Rows()*x.Heads, x.V.Rows()*x.Heads*x.KeyDim()
	return &deltaGrads{eng.gradOf(x.Q), eng.gradOf(x.K), eng.gradOf(x.V), eng.gradOf(x.G), eng.grad(x.Beta, heads),
		eng.grad(x.A, wide), eng.grad(x.B, wide)}
}

// add adds the gradients d of the inputs of a head at a position.
func (to *deltaGrads) add(x *engine.Delta, p, h int, at, d *deltaPlace) {
	for i, k := range at.k {
		decay, key, head := deltaIndex(x, p, h, i)
		to.q[key] += d.q[i]
		to.k[key] += d.k[i]
		to.g[decay] += d.decay[i]
		if x.A != nil {
			to.a[head] += d.a[i]
			to.b[head] += d.b[i]
		} else if x.Beta != nil { // a = -β·k, b = e^g ⊙ k
			to.k[key] += -at.beta*d.a[i] + at.decay[i]*d.b[i]
			to.beta[p*x.Heads+h] -= k * d.a[i]
			to.g[decay] += at.b[i] * d.b[i]
		}
	}
	if x.Beta != nil {
		to.beta[p*x.Heads+h] += d.beta
	}
	for j, v := range d.v {
		to.v[(p*x.Heads+h)*len(d.v)+j] += v
	}
}
