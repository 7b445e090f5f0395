package compose

import (
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// ShiftSSM uses that the state after position t is s_t[j] = Σ_{i≤j} B[j-i]·x[t-i], plus s[j-t-1] of the state before
// the row.
func (e *Engine) ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	return e.one("ShiftSSM", func() *val {
		d := x.Dim(-1)
		B, C := e.in(bw).as(d, -1), e.in(cw).as(d, -1)
		n := B.dim(1)
		shifted := sync.OnceValue(func() *val { return B.pad(1, n-1, 0).windows(1, n).reversed(2) })
		kernel := B.shiftKernel(C, shifted)
		all := e.in(x).rows()
		ys := all.longConvRows(kernel, e.in(dw), r)
		if len(slots) == 0 {
			return ys.as(x.Shape()...)
		}
		return all.each(r, func(i int, x *val) *val {
			l, y := r.Len(i), ys.row(r, i)
			if slots.At(i) == nil {
				return y
			}
			before := e.carried(slots, i, d, n)
			m, last := min(l, n), x.slice(0, max(0, l-n), min(l, n)).reversed(0)
			after := shifted().slice(2, 0, m).einsum("cji,ic->cj", last)
			if l < n {
				after = after.add(before.slice(1, 0, n-l).pad(1, l, 0))
			}
			e.carry(slots, i, func() *val { return after })
			// Element m of the state before the row is element m+t+1 after position t.
			late := C.pad(1, 0, l).slice(1, 1, n+l-1).windows(1, n)
			return y.add(late.einsum("ctm,cm->tc", before))
		}).as(x.Shape()...)
	})
}

// keptBy identifies the owner of a cached system.
type keptBy struct {
	core engine.Core
	of   string
}

// system returns a system made from parameters. While the tape does not record, it is cached until the parameters
// change. make returns the system and the tensors to keep with it.
func system[S any](e *Engine, kept *engine.Cache, of string, params []*tensor.Tensor,
	make func() (S, []*tensor.Tensor)) S {
	if e.Recording {
		s, _ := make()
		return s
	}
	if s, ok := kept.Load(keptBy{e.core, of}, params...).(S); ok {
		return s
	}
	s, tensors := make()
	for _, t := range tensors {
		e.keep(e.nodes[t])
	}
	kept.Store(keptBy{e.core, of}, s, params...)
	return s
}

// diagonal returns the system of h·n modes that f discretizes. Its Private is z = dt·A.
func (e *Engine) diagonal(name string, h, n int, f func() (z, abar, bbar, c pair)) (*engine.DiagSystem,
	[]*tensor.Tensor) {
	all := e.compute(name, func() []*val {
		z, abar, bbar, c := f()
		return []*val{abar.join(), bbar.join(), c.join(), z.join()}
	})
	return &engine.DiagSystem{H: h, N: n, Abar: all[0], Bbar: all[1], C: all[2], Private: all[3]}, all
}

// realPart returns the real part of A.
func realPart(x *val, r engine.RealPart) *val {
	switch r {
	case engine.NegSoftplus:
		return x.softplus().neg()
	case engine.NegReLU:
		return x.where(x.positive(), x.e.full(0)).affine(-1, -engine.ReLUFloor)
	case engine.Negative:
		return x.neg()
	}
	return x.exp().neg()
}

func (e *Engine) DiagSystem(p *engine.DiagParams) *engine.DiagSystem {
	h := p.LogDt.Len()
	n := p.InvAReal.Len() / h
	params := p.Tensors()
	return system(e, &p.Cache, "DiagSystem", params[:], func() (*engine.DiagSystem, []*tensor.Tensor) {
		return e.diagonal("DiagSystem", h, n, func() (z, abar, bbar, c pair) {
			logDt := e.in(p.LogDt).as(h, 1)
			dt := logDt.exp()
			A := pair{realPart(e.in(p.InvAReal).as(h, n), p.Real), e.in(p.AImag).as(h, n)}
			C, B := pairOf(e.in(p.C).as(h, n, 2)), pair{e.full(1, h, n), e.full(0, h, n)}
			if p.B != nil {
				B = pairOf(e.in(p.B).as(h, n, 2))
			}
			z = A.times(dt)
			if p.Disc == engine.ZOH {
				turned := pair{z.re, e.angle(1, A.im, logDt, nil)}
				return z, turned.exp(), B.mul(turned.expm1()).mul(A.recip()), C
			}
			q := z.scale(-0.5).plus(1).recip()
			return z, z.scale(0.5).plus(1).mul(q), B.times(dt).mul(q), C
		})
	})
}

func (e *Engine) DiagKernel(s *engine.DiagSystem, l int) *tensor.Tensor {
	return e.one("DiagKernel", func() *val {
		abar, bbar, c := pairOf(e.in(s.Abar)), pairOf(e.in(s.Bbar)), pairOf(e.in(s.C))
		return abar.powerSums(c.mul(bbar).scale(2), l)
	})
}

// DiagSSM convolves with the kernel, and carries the state through a row by powers of Abar.
func (e *Engine) DiagSSM(g engine.Gates, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.one("DiagSSM", func() *val {
		abar, bbar, c := pairOf(e.in(s.Abar)), pairOf(e.in(s.Bbar)), pairOf(e.in(s.C))
		kernel := abar.powerSums(c.mul(bbar).scale(2), r.Longest())
		p, D := g.HeadDim, e.in(skip).as(s.H, 1)
		heads := func(x *val) *val { return x.as(-1, s.H, p) }
		u := heads(e.in(g.V))
		if g.K != nil {
			u = heads(e.in(g.K)).einsum("thi,thj->thij", u)
		}
		u = u.as(r.Total(), s.H, -1)
		z := u.convRows(kernel, r).add(u.mul(D))
		if slots.Any() {
			powers := abar.powers(r.Longest())
			late := powers.mul(c.mul(abar)).scale(2)
			z = z.each(r, func(i int, z *val) *val {
				if slots.At(i) == nil {
					return z
				}
				l, u := r.Len(i), u.row(r, i)
				x := pairOf(e.carried(slots, i, s.H, u.dim(2), s.N, 2))
				e.carry(slots, i, func() *val {
					row := powers.cut(0, l)
					sums := row.both(func(v *val) *val { return v.reversed(0).einsum("thn,thq->hqn", u) })
					middle := func(v *val) *val { return v.unsqueeze(1) }
					last := row.both(func(v *val) *val { return v.pick(0, l-1) }).mul(abar)
					return x.mul(last.both(middle)).add(sums.mul(bbar.both(middle))).join()
				})
				return z.add(late.cut(0, l).real("thn,hqn->thq", x))
			})
		}
		if g.Q != nil {
			z = z.as(-1, s.H, p, u.dim(2)/p).einsum("thij,thi->thj", heads(e.in(g.Q)))
		}
		if g.Order == engine.DimMajor {
			z = z.einsum("thj->tjh", nil)
		}
		return z.as(g.V.Shape()...)
	})
}

// DiagScan scans with the decay factors of each position.
func (e *Engine) DiagScan(u, steps *tensor.Tensor, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.one("DiagScan", func() *val {
		z, c := pairOf(e.in(s.Private.(*tensor.Tensor))), pairOf(e.in(s.C))
		b := pairOf(e.in(s.Bbar)).mul(z.expm1().recip())
		by, D := e.in(steps).rows(), e.in(skip).flat()
		return e.in(u).rows().each(r, func(i int, u *val) *val {
			l := r.Len(i)
			past := z.times(by.row(r, i).as(l, 1, 1))
			in := b.mul(past.expm1()).times(u.as(l, s.H, 1))
			x := scan(past.exp(), in, pairOf(e.carried(slots, i, s.H, s.N, 2)))
			e.carry(slots, i, func() *val { return x.cut(l-1, 1).join() })
			return x.real("thn,hn->th", c).scale(2).add(u.mul(D))
		}).as(u.Shape()...)
	})
}

// dssModes holds the modes of DSSParams. z are the exponents. turned is z with an angle in place of Im z, for use in
// exponentials; signed is turned with the sign that lets it decay. S are the scales. In the kernel z is multiplied by k
// - origin. ahead is 1 where Re Λ > 0.
type dssModes struct {
	z, turned, signed, S pair
	origin, ahead, sign  *val
}

func (e *Engine) dss(p *engine.DSSParams) (m dssModes) {
	re, im := e.in(p.Re).flat(), e.in(p.Im).flat()
	x, u := im, (*val)(nil)
	if p.LogNegRe {
		re = re.exp().neg()
	}
	if p.LogIm {
		x, u, im = nil, im, im.exp()
	}
	n := re.dim(0)
	h := p.W.Len() / (2 * n)
	lambda := pair{re, im}
	m.z = pair{re.add(e.full(0, h, n)), im.add(e.full(0, h, n))}
	var v *val
	if p.LogDt != nil {
		logDt := e.in(p.LogDt).as(h, 2)
		dt := logDt.exp()
		m.z, v = pair{re.mul(dt.slice(1, 0, 1)), im.mul(dt.slice(1, 1, 1))}, logDt.slice(1, 1, 1)
	}
	// times returns z·c for use in exponentials.
	times := func(c float64) pair { return pair{m.z.re.scale(c), e.angle(c, x, u, v)} }
	m.ahead = re.constant().positive()
	m.sign = m.ahead.affine(-2, 1)
	m.turned = times(1)
	m.signed = m.turned.times(m.sign)
	m.S = pair{e.full(1, h, n), e.full(0, h, n)}
	switch p.Scale {
	case engine.DSSExp:
		m.S = m.turned.expm1().mul(lambda.recip())
	case engine.DSSSoftmax:
		const epsilon = 1e-7 // as in the release
		x := times(float64(p.L)).times(m.sign).expm1().mul(lambda)
		m.S = m.signed.expm1().mul(x.conj().times(x.square().plus(epsilon).recip()))
	}
	m.origin = m.ahead.scale(float64(p.L - 1))
	return m
}

func (e *Engine) DSSKernel(p *engine.DSSParams, l int) *tensor.Tensor {
	return e.one("DSSKernel", func() *val {
		m := e.dss(p)
		from := m.z
		if p.HoldMax {
			from = m.z.constant()
		}
		W := pairOf(e.in(p.W).as(m.z.re.dim(0), -1, 2)).mul(m.S)
		if _, sums := e.core.(PowerSummer); sums && p.Scale != engine.DSSSoftmax {
			return m.turned.exp().powerSums(W, l)
		} else if sums && !p.HoldMax {
			// Modes with Re Λ > 0 have exponents -z·(L-1-k). Their sums are those of e^-z, in reverse order.
			a, zero := m.signed.exp(), pair{e.full(0), e.full(0)}
			rest := a.powerSums(W.where(m.ahead, zero), p.L).reversed(0).slice(0, 0, l)
			return a.powerSums(zero.where(m.ahead, W), l).add(rest)
		}
		steps := e.count(l).as(l, 1, 1)
		exponent := m.z.times(steps).add(from.times(m.origin.neg()))
		return exponent.exp().real("khn,hn->kh", W)
	})
}

func (e *Engine) DSSSystem(p *engine.DSSParams) *engine.DiagSystem {
	n, params := p.Re.Len(), p.Tensors()
	h := p.W.Len() / (2 * n)
	return system(e, &p.Cache[0], "DSSSystem", params[:], func() (*engine.DiagSystem, []*tensor.Tensor) {
		return e.diagonal("DSSSystem", h, n, func() (z, abar, bbar, c pair) {
			m := e.dss(p)
			held := func(x pair) pair { return x.constant().where(m.ahead, x) }
			z = held(m.z.times(m.sign))
			turned := held(m.signed)
			v := turned.expm1().mul(z.recip())
			zero := pair{e.full(0), e.full(0)}
			c = pairOf(e.in(p.W).as(h, n, 2)).mul(m.S).mul(v.recip()).scale(0.5)
			return z, turned.exp(), v, zero.where(m.ahead, c)
		})
	})
}
