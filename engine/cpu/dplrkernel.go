package cpu

import (
	"math/cmplx"
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The algorithm of S4 (arXiv:2111.00396, §3.2, algorithm 1). With a vector v in place of Bbar, the first L outputs of a
// system are C Ābarʲ v. Their Fourier transform at the L-th roots of unity z = exp(-2πik/L) is C~ (I - Ābar z)⁻¹ v.
// With s = (1-z)/(1+z) = i·tan(πk/L) and w = (I - A) v / 2 that is
//
//	F(s) = (1+s) · C~ (s - A)⁻¹ w = (1+s) · (S_cw - S_cp (1 + S_pp)⁻¹ S_pw)
//
// by the Woodbury identity, where S_xy = Σ x_i y_i/(s - λ_i) over all modes and their conjugates. These are products
// with a Cauchy matrix, where x is C~ or conj(p), and y is w or p. At z = -1 the tangent is 1e16 in float64, which
// gives the limit to the last digit.

// makeKernel computes the kernels of DPLRKernel in lanes (⌈h/16⌉, l, 16): the impulse response, for which w = b.
func (eng *Engine) makeKernel(s *dplrSystem, l int) *tensor.Tensor {
	k := eng.newKernels(s.H, l)
	if !eng.Recording || !s.wantGrad {
		op := cauchyOp{sys: s, l: l, y: k}
		op.forward(eng)
		return k
	}
	op := take[cauchyOp](eng)
	*op = cauchyOp{sys: s, l: l, y: k, kept: eng.arena.Floats(s.H * 4 * s.Rank * (s.L/2 + 1))}
	op.forward(eng)
	eng.push("DPLRKernel", op, k)
	return k
}

// addZeroInput adds C Ābarʲ⁺¹ x0 to rows of y (n, h), of up to s.L positions each: the response to their states x0 (h,
// n, 2), which may be nil, without inputs. Here w = (I + A) x0 / 2.
func (eng *Engine) addZeroInput(y *tensor.Tensor, s *dplrSystem, rows []span, states []*tensor.Tensor) {
	op := take[cauchyOp](eng)
	*op = cauchyOp{sys: s, y: y, rows: op.rows[:0], x0: op.x0[:0], dx0: op.dx0[:0]}
	for b, x := range states {
		if x != nil {
			op.rows, op.x0 = append(op.rows, rows[b]), append(op.x0, x)
		}
	}
	if len(op.x0) == 0 {
		return
	}
	op.forward(eng)
	if eng.Recording && (s.wantGrad || slices.ContainsFunc(op.x0, eng.wanted)) {
		eng.pushPart("DPLRKernel", op, y)
	}
}

// cauchyOp is DPLRKernel if there are no states, else addZeroInput.
type cauchyOp struct {
	sys  *dplrSystem
	l    int // of the kernels
	y    *tensor.Tensor
	rows []span
	x0   []*tensor.Tensor // of the rows
	dx0  [][]float32
	kept []float32 // results of solve, (h, 4·rank, nodes), for backward; nil to compute them again
}

// kernels reports whether this is DPLRKernel.
func (o *cauchyOp) kernels() bool { return len(o.x0) == 0 }

// vectors returns the number of vectors w of a channel.
func (o *cauchyOp) vectors() int { return max(1, len(o.x0)) }

// row returns row b in y or its gradient.
func (o *cauchyOp) row(y []float32, b int) []float32 {
	return y[o.rows[b].at*o.sys.H:][:o.rows[b].len*o.sys.H]
}

func (o *cauchyOp) forward(eng *Engine) {
	s := o.sys
	f := kernel.NewRealDFT(s.L)
	spectrum, work, x := eng.scratch(f.SpectrumRows()*s.H), eng.arena.Borrow(f.WorkSize(s.H)), eng.arena.Borrow(s.L*s.H)
	for b := range o.vectors() {
		parallel.For(s.H, cauchyChannels, func(lo, hi int) {
			w := borrowCauchy(s)
			defer cauchyPool.Put(w)
			for h := lo; h < hi; h++ {
				w.respond(o, spectrum, b, h)
			}
		})
		f.Inverse(x, spectrum, s.H, work)
		if o.kernels() {
			toLanes(o.y.Data(), x, o.l, s.H)
			continue
		}
		y := o.row(o.y.Data(), b)
		parallel.For(len(y), grain, func(lo, hi int) { kernel.Add(y[lo:hi], x[lo:hi]) })
	}
	eng.done(spectrum)
	eng.done(work)
	eng.done(x)
}

func (o *cauchyOp) Backward(eng *Engine) {
	dy, s := o.y.Grad(), o.sys
	f := kernel.NewRealDFT(s.L)
	spectrum, work, x := eng.arena.Borrow(f.SpectrumRows()*s.H), eng.arena.Borrow(f.WorkSize(s.H)), eng.scratch(s.L*s.H)
	for _, x := range o.x0 {
		o.dx0 = append(o.dx0, eng.gradOf(x))
	}
	for b := range o.vectors() {
		if o.kernels() {
			fromLanes(x, dy, o.l, s.H)
		} else {
			clear(x[copy(x, o.row(dy, b)):])
		}
		f.Transpose(spectrum, x, s.H, work)
		parallel.For(s.H, cauchyChannels, func(lo, hi int) {
			w := borrowCauchy(s)
			defer cauchyPool.Put(w)
			for h := lo; h < hi; h++ {
				w.gradient(o, spectrum, at(o.dx0, b), b, h)
			}
		})
	}
	eng.done(spectrum)
	eng.done(work)
	eng.done(x)
}

// cauchyChannels is the number of channels of a task, whose spectra share cache lines.
const cauchyChannels = 16

// chain propagates the gradients of the coefficients of the sums to λ, p, C~ and w, and that of w to the parameters or
// the state.
func (w *cauchyWork) chain(o *cauchyOp, dx0 []float32, h int) {
	s := w.sys
	if !s.wantGrad {
		w.grads(nil, nil)
	} else {
		g := s.grad.channel(h, s.N, s.Rank)
		w.grads(&g, s.dct[h*s.N:][:s.N])
		if o.kernels() {
			for i, v := range w.g {
				g.b[i] += v
			}
			return
		}
		w.c.bilinearGrad(&g, w.g, w.x, s.Rank, 1)
	}
	if dx0 != nil {
		w.c.apply(w.x, w.g, s.Rank, true)
		for i, v := range w.x {
			addPair(dx0, h*s.N+i, v/2)
		}
	}
}

// grads sets w.g to the gradient of w, and adds the gradients of λ and p to g, and of C~ to dct, unless they are nil.
func (w *cauchyWork) grads(g *lowRank, dct []complex128) {
	d, c, rank := &w.gradOf, &w.sumsOf, w.sys.Rank
	for i, lambda := range w.c.lambda {
		w.g[i] = 0
		if g != nil {
			g.lambda[i] += c.ModeGrad(d, i, lambda)
		}
		for j := range c.M {
			x, y := w.factors(j, i)
			dLambda, dv := c.TermGrad(d, i, j, lambda, x*y)
			if j%(1+rank) == 0 {
				w.g[i] += dv * cmplx.Conj(x)
			}
			if g == nil {
				continue
			}
			g.lambda[i] += dLambda
			if r := j % (1 + rank); r > 0 {
				g.p[r-1][i] += dv * cmplx.Conj(x)
			}
			if r := j / (1 + rank); r > 0 {
				g.p[r-1][i] += cmplx.Conj(dv) * y
			} else {
				dct[i] += dv * cmplx.Conj(y)
			}
		}
	}
}
