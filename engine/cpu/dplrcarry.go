package cpu

import (
	"math/cmplx"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// dplrCarryOp carries states through rows of u (n, h), from x0 before a row, or zeros if x0 is nil, to the state after
// it:
//
//	x ← s + (s - x),  (I - A) s = x + b u
//
// This is the bilinear rule, written with s, the mean of a state and the next one. Backward walks through the states a
// second time, in float64, and then back.
type dplrCarryOp struct {
	sys      *dplrSystem
	u        *tensor.Tensor
	rows     []span
	x0, next []*tensor.Tensor
	dx0      [][]float32
}

// carryDPLR carries states through the rows, and records it. After the last piece of a row, only states in slots are
// needed.
func (eng *Engine) carryDPLR(u *tensor.Tensor, s *dplrSystem, rows []span, states *dplrStates, last bool) {
	o := take[dplrCarryOp](eng)
	*o = dplrCarryOp{sys: s, u: u, rows: o.rows[:0], x0: o.x0[:0], next: o.next[:0], dx0: o.dx0[:0]}
	for b, x0 := range states.x {
		if last && !states.given[b] {
			continue
		}
		next := eng.New(s.H, s.N, 2)
		if x0 == nil {
			next.Zero()
		} else {
			copy(next.Data(), x0.Data())
		}
		o.rows, o.x0, o.next = append(o.rows, rows[b]), append(o.x0, x0), append(o.next, next)
		states.x[b] = next
	}
	if len(o.rows) == 0 {
		return
	}
	s.step(nil, u, nil, o.rows, o.next)
	if eng.Recording && (s.wantGrad || eng.wanted(u) || slices.ContainsFunc(o.x0, eng.wanted)) {
		eng.push("DPLRCarry", o, o.next...)
	}
}

func (o *dplrCarryOp) Backward(eng *Engine) {
	du, s := eng.gradOf(o.u), o.sys
	for _, x0 := range o.x0 {
		o.dx0 = append(o.dx0, eng.gradOf(x0))
	}
	parallel.For(s.H, 1, func(lo, hi int) {
		w := carryPool.Get().(*dplrCarryWork)
		defer carryPool.Put(w)
		for h := lo; h < hi; h++ {
			w.channel(s, h)
			for b, next := range o.next {
				if next.Grad() != nil {
					w.walk(o, b, h)
					w.back(o, du, b, h)
				}
			}
		}
	})
}

// dplrCarryWork is scratch for a channel.
type dplrCarryWork struct {
	c, grad      lowRank
	rank         int
	d            []complex128 // 1/(1-λ)
	inverse      [engine.MaxRank][engine.MaxRank]float64
	means, x, mu []complex128
}

var carryPool = sync.Pool{New: func() any { return new(dplrCarryWork) }}

func (w *dplrCarryWork) channel(s *dplrSystem, h int) {
	w.rank, w.c = s.Rank, s.channel(h, s.N, s.Rank)
	w.d, w.x, w.mu = resize(w.d, s.N), resize(w.x, s.N), resize(w.mu, s.N)
	for i, lambda := range w.c.lambda {
		w.d[i] = 1 / (1 - lambda)
	}
	w.inverse = w.c.inverse(s.Rank)
	if s.wantGrad {
		w.grad = s.grad.channel(h, s.N, s.Rank)
	}
}

// solve replaces x by (I - A)⁻¹ x, or by (I - A)⁻ᵀ x for A as a real matrix.
func (w *dplrCarryWork) solve(x []complex128, transposed bool) {
	for i, d := range w.d {
		if transposed {
			d = cmplx.Conj(d)
		}
		x[i] *= d
	}
	var q, z [engine.MaxRank]float64
	for r := range w.rank {
		q[r] = 2 * inner(w.c.p[r], x)
	}
	for r := range w.rank {
		for k := range w.rank {
			if transposed {
				z[r] += w.inverse[k][r] * q[k]
			} else {
				z[r] += w.inverse[r][k] * q[k]
			}
		}
	}
	for r := range w.rank {
		for i, d := range w.d {
			if transposed {
				d = cmplx.Conj(d)
			}
			x[i] -= d * w.c.p[r][i] * complex(z[r], 0)
		}
	}
}

// input returns the index of u[t] of row b.
func (o *dplrCarryOp) input(b, t, h int) (at int) { return (o.rows[b].at+t)*o.sys.H + h }

// walk computes the means s of all steps.
func (w *dplrCarryWork) walk(o *dplrCarryOp, b, h int) {
	n := len(w.d)
	w.means = resize(w.means, o.rows[b].len*n)
	clear(w.x)
	if x0 := o.x0[b]; x0 != nil {
		for i := range w.x {
			w.x[i] = pair(x0.Data(), h*n+i)
		}
	}
	for t := range o.rows[b].len {
		s, u := w.means[t*n:][:n], complex(float64(o.u.Data()[o.input(b, t, h)]), 0)
		for i, x := range w.x {
			s[i] = x + w.c.b[i]*u
		}
		w.solve(s, false)
		for i, v := range s {
			w.x[i] = 2*v - w.x[i]
		}
	}
}

// back propagates the gradient of the state after the row to the state before it. With g the gradient of a state, μ =
// (I - A)⁻ᵀ 2g is the gradient of x + b u, and of the result of a product A s.
func (w *dplrCarryWork) back(o *dplrCarryOp, du []float32, b, h int) {
	n, g := len(w.d), w.x
	at := h * n
	for i := range g {
		g[i] = pair(o.next[b].Grad(), at+i)
	}
	for t := o.rows[b].len - 1; t >= 0; t-- {
		for i, v := range g {
			w.mu[i] = 2 * v
		}
		w.solve(w.mu, true)
		if o.sys.wantGrad {
			u := complex(float64(o.u.Data()[o.input(b, t, h)]), 0)
			for i, v := range w.mu {
				w.grad.b[i] += v * u
			}
			w.c.bilinearGrad(&w.grad, w.mu, w.means[t*n:][:n], w.rank, 1)
		}
		if du != nil {
			du[o.input(b, t, h)] += float32(inner(w.c.b, w.mu))
		}
		for i, v := range w.mu {
			g[i] = v - g[i]
		}
	}
	for i, v := range g {
		addPair(o.dx0[b], at+i, v)
	}
}
