package cpu

import (
	"math/cmplx"
	"sync"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// dplrSteps holds the coefficients of the recurrence in float32. With d = 1/(1 - λ) and the Woodbury identity
// (arXiv:2111.00396, appendix C.2), a step is a diagonal one that also reads rank projections of the state before it:
//
//	γ_r = 2 Re Σ f_r (x + b u),  x ← abar x + bbar u - Σ_r e_r γ_r,  y = 2 Re Σ C x
//	abar = 2d - 1,  bbar = 2 d b,  f_r = 2 d conj(p_r),  e = d p (1 + p^* d p)⁻¹
type dplrSteps struct {
	ready   atomic.Bool
	mu      sync.Mutex
	a, b, c []float32                 // (h, n, 2)
	e, f    [engine.MaxRank][]float32 // (h, n, 2); the product of f with the pairs of x is γ
	fb, ce  [engine.MaxRank][]float32 // (h): the coefficients of u in γ, and of γ in y
}

// recurrence returns the dplrSteps, computed at first use. Any number of goroutines may decode with one system.
func (s *dplrSystem) recurrence() *dplrSteps {
	st := &s.steps
	if st.ready.Load() {
		return st
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ready.Load() {
		return st
	}
	for _, x := range []*[]float32{&st.a, &st.b, &st.c, &st.e[0], &st.e[1], &st.f[0], &st.f[1]} {
		*x = resize(*x, 2*s.H*s.N)
	}
	for _, x := range []*[]float32{&st.fb[0], &st.fb[1], &st.ce[0], &st.ce[1]} {
		*x = resize(*x, s.H)
	}
	parallel.For(s.H, 4, func(lo, hi int) {
		w := borrowCauchy(s)
		defer cauchyPool.Put(w)
		for h := lo; h < hi; h++ {
			w.steps(st, h)
		}
	})
	st.ready.Store(true)
	return st
}

// steps sets the coefficients of channel h in st.
func (w *cauchyWork) steps(st *dplrSteps, h int) {
	s, at := w.sys, h*w.sys.N
	c := w.readOut(h)
	var e, f [engine.MaxRank][]complex128
	inverse := w.c.inverse(s.Rank)
	for r := range s.Rank {
		e[r], f[r] = make([]complex128, s.N), make([]complex128, s.N)
	}
	for i, lambda := range w.c.lambda {
		d := 1 / (1 - lambda)
		setPair(st.a, at+i, 2*d-1)
		setPair(st.b, at+i, 2*d*w.c.b[i])
		setPair(st.c, at+i, c[i])
		for r := range s.Rank {
			f[r][i] = 2 * d * cmplx.Conj(w.c.p[r][i])
			for q := range s.Rank {
				e[r][i] += d * w.c.p[q][i] * complex(inverse[q][r], 0)
			}
			setPair(st.e[r], at+i, e[r][i])
			setPair(st.f[r], at+i, 2*cmplx.Conj(f[r][i]))
		}
	}
	for r := range s.Rank {
		st.fb[r][h], st.ce[r][h] = float32(twiceReal(f[r], w.c.b)), float32(twiceReal(c, e[r]))
	}
}

// twiceReal returns 2 Re Σ x·y.
func twiceReal(x, y []complex128) (sum float64) {
	for i, v := range x {
		sum += real(v * y[i])
	}
	return 2 * sum
}

// inverse returns the real matrix (1 + p^* d p)⁻¹, d = 1/(1 - λ). The symmetric part of the inverted matrix is at least
// 1 if Re λ ≤ 0.
func (c *lowRank) inverse(rank int) (m [engine.MaxRank][engine.MaxRank]float64) {
	var w [engine.MaxRank][engine.MaxRank]float64
	for r := range rank {
		for q := range rank {
			for i, lambda := range c.lambda {
				w[r][q] += 2 * real(cmplx.Conj(c.p[r][i])*c.p[q][i]/(1-lambda))
			}
		}
		w[r][r]++
	}
	if rank == 1 {
		m[0][0] = 1 / w[0][0]
		return m
	}
	det := w[0][0]*w[1][1] - w[0][1]*w[1][0]
	m[0] = [engine.MaxRank]float64{w[1][1] / det, -w[0][1] / det}
	m[1] = [engine.MaxRank]float64{-w[1][0] / det, w[0][0] / det}
	return m
}

// readOut returns C, given the trained C~ = C (I - Ābar^L). By the partial fractions 1/(1-x^L) = 1/L Σ_k 1/(1 - x z_k)
// over the L-th roots of unity, it is a sum over the nodes of the Cauchy kernel:
//
//	C = 1/L Σ_k (1+s_k)/2 · C~ (s_k - A)⁻¹ (I - A)
func (w *cauchyWork) readOut(h int) []complex128 {
	s := w.sys
	w.channel(&cauchyOp{sys: s}, 0, h)
	c := make([]complex128, s.N)
	w.blocks(func(at, n int) {
		kernel.CauchySums(w.sums, w.nodes.square[at:at+n], &w.sumsOf)
		for k, tan := range w.nodes.tan[at : at+n] {
			_, x := w.solve(k, n, tan)
			w.addLeft(c, tan, x)
			if at+k == 0 || 2*(at+k) == s.L {
				continue
			}
			for r := range s.Rank {
				x[r] = cmplx.Conj(x[r])
			}
			w.addLeft(c, -tan, x) // node L-k
		}
	})
	var q [engine.MaxRank]float64
	for r := range s.Rank {
		q[r] = twiceReal(c, w.c.p[r])
	}
	for i, v := range c {
		c[i] = v * (1 - w.c.lambda[i])
		for r := range s.Rank {
			c[i] += complex(q[r], 0) * cmplx.Conj(w.c.p[r][i])
		}
		c[i] /= complex(float64(s.L), 0)
	}
	return c
}

// addLeft adds (1+s)/2 · C~ (s - A)⁻¹, s = i·tan, to c, given x = S_cp (1 + S_pp)⁻¹.
func (w *cauchyWork) addLeft(c []complex128, tan float64, x [engine.MaxRank]complex128) {
	for i, lambda := range w.c.lambda {
		v := w.ct[i]
		for r := range w.sys.Rank {
			v -= x[r] * cmplx.Conj(w.c.p[r][i])
		}
		c[i] += complex(0.5, tan/2) * v * reciprocal(complex(0, tan)-lambda)
	}
}

// dplrRows holds rows to step, and their states.
type dplrRows struct {
	rows   []span
	states []*tensor.Tensor
}

// stepDPLR steps the rows for which steps is true, and updates their states.
func (eng *Engine) stepDPLR(y, u *tensor.Tensor, s *dplrSystem, skip *tensor.Tensor, r *engine.Rows, slots engine.Slots,
	steps func(i int) bool) {
	p := take[dplrRows](eng)
	p.rows, p.states = p.rows[:0], p.states[:0]
	for i := range r.Count() {
		if !steps(i) {
			continue
		}
		x := slots.At(i)
		if x == nil {
			x = eng.New(s.H, s.N, 2)
			x.Zero()
		}
		p.rows, p.states = append(p.rows, spanOf(r, i)), append(p.states, x)
	}
	if len(p.rows) == 0 {
		return
	}
	var skips []float32
	if skip != nil {
		skips = skip.Data()
	}
	s.step(y, u, skips, p.rows, p.states)
}

// step runs the recurrence through rows of u (n, h) from their states (h, n, 2), which it updates, and writes y (n, h)
// unless it is nil.
func (s *dplrSystem) step(y, u *tensor.Tensor, skip []float32, rows []span, states []*tensor.Tensor) {
	n, positions := 2*s.N, 0
	for _, row := range rows {
		positions += row.len
	}
	st := s.recurrence()
	parallel.For(len(rows)*s.H, rowGrain(positions/len(rows)*n), func(lo, hi int) {
		for bh := lo; bh < hi; bh++ {
			b, h := bh/s.H, bh%s.H
			x := states[b].Data()[h*n:][:n]
			var through [1]float32
			modes := kernel.DiagRecurrence{
				Systems: 1, Per: 1, N: s.N, A: st.a[h*n:][:n], B: st.b[h*n:][:n], C: st.c[h*n:][:n], Skip: through[:],
			}
			for t := range rows[b].len {
				row := (rows[b].at+t)*s.H + h
				in := u.Data()[row]
				var gamma [engine.MaxRank]float32
				for r := range s.Rank {
					gamma[r] = kernel.Dot(x, st.f[r][h*n:][:n]) + st.fb[r][h]*in
				}
				var z [1]float32
				modes.Step(z[:], u.Data()[row:row+1], x)
				out := z[0]
				for r := range s.Rank {
					kernel.Axpy(-gamma[r], st.e[r][h*n:][:n], x)
					out -= gamma[r] * st.ce[r][h]
				}
				if y == nil {
					continue
				}
				if skip != nil {
					out += skip[h] * in
				}
				y.Data()[row] = out
			}
		}
	})
}
