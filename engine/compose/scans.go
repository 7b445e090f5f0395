package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// selective returns the scan of u, Δ (l, d) with a (d, n), and b and c (l, g, n) for groups of channels. parts converts
// a, b and c to real or complex numbers.
func (e *Engine) selective(name string, u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots, parts func(v *val) pair) *tensor.Tensor {
	return e.one(name, func() *val {
		d := u.Dim(-1)
		A := parts(e.in(a).as(groups, d/groups, -1))
		n := A.re.dim(-1)
		delta, bc, D := e.in(delta).rows(), e.in(bc).rows(), e.in(dw).flat()
		return e.in(u).rows().each(r, func(i int, u *val) *val {
			l := r.Len(i)
			step := delta.row(r, i).as(l, groups, -1, 1)
			both := parts(bc.row(r, i).as(l, 2*groups, -1))
			B := both.both(func(v *val) *val { return v.slice(1, 0, groups).unsqueeze(2) })
			C := both.both(func(v *val) *val { return v.slice(1, groups, groups) })
			in := B.times(step.mul(u.as(l, groups, -1, 1)))
			decay := A.times(step)
			if decay.im == nil {
				decay.re = decay.re.exp()
			} else {
				decay = decay.exp()
			}
			shape := []int{groups, d / groups, n}
			if decay.im != nil {
				shape = append(shape, 2)
			}
			first := e.carried(slots, i, shape...)
			from := pair{re: first}
			if decay.im != nil {
				from = pairOf(first)
			}
			h := scan(decay, in, from)
			e.carry(slots, i, func() *val { return h.cut(l-1, 1).join() })
			y := h.real("tgcn,tgn->tgc", C).as(l, -1)
			if decay.im != nil {
				y = y.scale(2)
			}
			return y.add(u.mul(D))
		}).as(u.Shape()...)
	})
}

func (e *Engine) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.selective("SelectiveScan", u, delta, a, bc, dw, groups, r, slots, func(v *val) pair { return pair{re: v} })
}

func (e *Engine) SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.selective("SelectiveScanComplex", u, delta, a, bc, dw, groups, r, slots, func(v *val) pair {
		return pairOf(v.as(append(v.shape[:len(v.shape)-1:len(v.shape)-1], v.dim(-1)/2, 2)...))
	})
}

func (e *Engine) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.one("SSD", func() *val {
		heads := a.Len()
		d, each := heads*headDim, heads/groups
		A, D, dt := e.in(a).as(groups, each), e.in(dw).as(heads, 1), e.in(dt).rows()
		return e.in(xbc).rows().each(r, func(i int, all *val) *val {
			l := r.Len(i)
			x := all.slice(1, 0, d).as(l, groups, each, headDim)
			bc := all.slice(1, d, all.dim(1)-d).as(l, 2, groups, -1)
			B, C := bc.pick(1, 0), bc.pick(1, 1)
			step := dt.row(r, i).as(l, groups, each)
			decay := step.mul(A).exp().as(l, groups, each, 1, 1)
			in := x.mul(step.as(l, groups, each, 1)).einsum("tghp,tgn->tghpn", B)
			h := scan(pair{re: decay}, pair{re: in}, pair{re: e.carried(slots, i, groups, each, headDim, B.dim(2))})
			e.carry(slots, i, func() *val { return h.cut(l-1, 1).re })
			y := h.re.einsum("tghpn,tgn->tghp", C).as(l, heads, headDim)
			return y.add(x.as(l, heads, headDim).mul(D)).as(l, -1)
		})
	})
}

func (e *Engine) Recurrence(u, rw *tensor.Tensor, tanhs int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	return e.one("Recurrence", func() *val {
		n, R := u.Dim(-1), e.in(rw)
		return e.in(u).rows().each(r, func(i int, u *val) *val {
			s := e.carried(slots, i, n)
			var all []*val
			for t := range r.Len(i) {
				s = R.matmul("ij,j->i", s).add(u.pick(0, t))
				s = concat(0, s.slice(0, 0, tanhs).tanh(), s.slice(0, tanhs, n-tanhs))
				all = append(all, s.unsqueeze(0))
			}
			e.carry(slots, i, func() *val { return s })
			return concat(0, all...)
		}).as(u.Shape()...)
	})
}

func (e *Engine) RGLRU(u, r, i, lambda *tensor.Tensor, rows *engine.Rows, slots engine.Slots) *tensor.Tensor {
	return e.one("RGLRU", func() *val {
		rate := e.in(r).rows().mul(e.in(lambda).flat().softplus()).scale(-engine.RGLRUPower)
		a := rate.exp()
		in, q := e.in(i).rows().mul(e.in(u).rows()), rate.rglruInput(a)
		return in.each(rows, func(i int, in *val) *val {
			l := rows.Len(i)
			decay, q := a.row(rows, i), q.row(rows, i)
			if rows.Start(i) == 0 {
				decay = decay.slice(0, 1, l-1).pad(0, 1, 0)
				q = concat(0, e.full(1, 1, in.dim(1)), q.slice(0, 1, l-1))
			}
			h := scan(pair{re: decay}, pair{re: q.mul(in)}, pair{re: e.carried(slots, i, in.dim(1))}).re
			e.carry(slots, i, func() *val { return h.slice(0, l-1, 1) })
			return h
		}).as(u.Shape()...)
	})
}

// rglruInput returns √(1 - a²) for a = e^v. Its derivative stays finite where a is near 1.
func (v *val) rglruInput(a *val) *val {
	square := v.constant().scale(2).expm1().neg()
	y, a := square.sqrt(), a.constant()
	return y.record(func() {
		floor := v.e.full(engine.RGLRUFloor / 4)
		root := floor.where(square.less(floor), square).sqrt()
		v.addGrad(y.dy(), a.mul(a).div(root).neg())
	}, v)
}
