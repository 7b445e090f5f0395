package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

func (e *Engine) DPLRSystem(p *engine.DPLRParams) *engine.DPLRSystem {
	h, rank, params := p.LogDt.Len(), p.Rank(), p.Tensors()
	n := p.InvAReal.Len() / h
	return system(e, &p.Cache, "DPLRSystem", params[:], func() (*engine.DPLRSystem, []*tensor.Tensor) {
		all := e.compute("DPLRSystem", func() []*val {
			a := e.in(p.LogDt).exp().scale(0.5).as(h, 1)
			lambda := pair{e.in(p.InvAReal).as(h, n).exp().neg(), e.in(p.AImag).as(h, n)}.times(a)
			wide := a.as(h, 1, 1)
			out := []*val{lambda.join(), e.in(p.B).as(h, n, 2).mul(wide), e.in(p.Ct).as(h, n, 2)}
			if rank > 0 {
				out = append(out, e.in(p.P).as(rank, h, n, 2).mul(wide.sqrt()))
			}
			return out
		})
		s := &engine.DPLRSystem{H: h, N: n, L: p.L, Rank: rank, Lambda: all[0], B: all[1], Ct: all[2]}
		if rank > 0 {
			s.P = all[3]
		}
		if !e.Recording {
			dense := e.compute("DPLRSystem", func() []*val { return e.dense(s).values() })
			s.Private, all = dense, append(all, dense...)
		}
		return s, all
	})
}

// dense is a DPLRSystem as real matrices, of size 2n for n modes: x' = Abar x + Bbar u, y = c x. See engine/reference.
type dense struct{ abar, bbar, c *val } // (h, 2n, 2n), (h, 2n), (h, 2n)

func (m dense) values() []*val { return []*val{m.abar, m.bbar, m.c} }

// denseOf returns the matrices of a system, cached if possible.
func (e *Engine) denseOf(s *engine.DPLRSystem) dense {
	if kept, ok := s.Private.([]*tensor.Tensor); ok && !e.Recording {
		return dense{e.in(kept[0]), e.in(kept[1]), e.in(kept[2])}
	}
	return e.dense(s)
}

// dense computes the matrices. With W = (I - λ)⁻¹, a diagonal of complex numbers, Woodbury's formula gives
//
//	Q = (I - A)⁻¹ = W - W p (½ + pᵀ W p)⁻¹ pᵀ W,   Abar = Q (I + A) = 2Q - I,   Bbar = 2 Q b
//
// and c = c~ (I - Abar^L)⁻¹ = c~ Π_k (I + Abar^(L·2^k)), because Abar contracts.
func (e *Engine) dense(s *engine.DPLRSystem) dense {
	const doublings = 24
	h, n := s.H, s.N
	w := pairOf(e.in(s.Lambda)).scale(-1).plus(1).recip()
	blocks := stack(stack(w.re, w.im.neg()), stack(w.im, w.re)).einsum("hicr->hirc", nil)
	q := blocks.einsum("hirc,ij->hirjc", e.identity(n)).as(h, 2*n, 2*n)
	if s.Rank > 0 {
		p := e.in(s.P)
		vectors := func(x pair) *val { return x.join().as(s.Rank, h, 2*n) }
		right, left := vectors(pairOf(p).mul(w)), vectors(pairOf(p).mul(w.conj()))
		small := p.as(s.Rank, h, 2*n).einsum("rhx,qhx->hrq", right).add(e.identity(s.Rank).scale(0.5))
		q = q.sub(inverse(small).einsum("hrq,rhx->hqx", right).einsum("hqx,qhy->hxy", left))
	}
	abar := q.scale(2).sub(e.identity(2 * n))
	bbar := q.einsum("hxy,hy->hx", e.in(s.B).as(h, 2*n)).scale(2)
	ct := pairOf(e.in(s.Ct)).conj().scale(2).join().as(h, 2*n)
	m, c := power(abar, s.L), ct
	for range doublings {
		c = c.add(c.einsum("hx,hxy->hy", m))
		m = m.times(m)
	}
	return dense{abar, bbar, c}
}

// identity returns the identity matrix of size n.
func (e *Engine) identity(n int) *val {
	i, j := e.count(n).as(n, 1), e.count(n)
	return e.full(1, n, n).sub(i.less(j)).sub(j.less(i))
}

// inverse returns the inverses of matrices (h, r, r) with r of 1 or 2.
func inverse(m *val) *val {
	if m.dim(1) == 1 {
		return m.recip()
	}
	at := func(i, j int) *val { return m.pick(1, i).pick(1, j) }
	det := at(0, 0).mul(at(1, 1)).sub(at(0, 1).mul(at(1, 0)))
	first, second := stack(at(1, 1), at(0, 1).neg()), stack(at(1, 0).neg(), at(0, 0))
	return concat(1, first.unsqueeze(1), second.unsqueeze(1)).div(det.as(-1, 1, 1))
}

// times returns the product of matrices (h, x, x).
func (v *val) times(m *val) *val { return v.einsum("hxy,hyz->hxz", m) }

// power returns m to the power of n ≥ 1.
func power(m *val, n int) *val {
	var y *val
	for ; ; m = m.times(m) {
		if n%2 == 1 {
			if y == nil {
				y = m
			} else {
				y = y.times(m)
			}
		}
		if n /= 2; n == 0 {
			return y
		}
	}
}

// orbit returns x, M x, …, M^(l-1) x along a new first axis, for x (h, 2n). spec multiplies by M from the left or
// right.
func orbit(x, m *val, spec string, l int) *val {
	all := x.unsqueeze(0)
	for n := 1; n < l; n *= 2 {
		all = concat(0, all, all.slice(0, 0, min(n, l-n)).einsum(spec, m))
		if 2*n < l {
			m = m.times(m)
		}
	}
	return all
}

// inputs returns Abar^j Bbar for j < l.
func (m dense) inputs(l int) *val { return orbit(m.bbar, m.abar, "jhy,hxy->jhx", l) }

func (m dense) kernel(inputs *val) *val { return inputs.einsum("jhx,hx->jh", m.c) }

func (e *Engine) DPLRKernel(s *engine.DPLRSystem, l int) *tensor.Tensor {
	return e.one("DPLRKernel", func() *val {
		m := e.denseOf(s)
		return m.kernel(m.inputs(l))
	})
}

func (e *Engine) DPLRSSM(u *tensor.Tensor, s *engine.DPLRSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.one("DPLRSSM", func() *val {
		m, skip := e.denseOf(s), e.in(skip)
		inputs := m.inputs(r.Longest())
		kernel := m.kernel(inputs)
		ys := e.in(u).longConvRows(kernel, skip, r)
		if len(slots) == 0 {
			return ys
		}
		return e.in(u).each(r, func(i int, u *val) *val {
			l, y := r.Len(i), ys.row(r, i)
			if slots.At(i) == nil {
				return y
			}
			x := e.carried(slots, i, s.H, 2*s.N)
			e.carry(slots, i, func() *val {
				through := power(m.abar, l).einsum("hxy,hy->hx", x)
				return through.add(inputs.slice(0, 0, l).reversed(0).einsum("jhx,jh->hx", u))
			})
			late := orbit(m.c.einsum("hx,hxy->hy", m.abar), m.abar, "jhx,hxy->jhy", l)
			return y.add(late.einsum("thx,hx->th", x))
		})
	})
}
