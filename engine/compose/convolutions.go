package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// carried returns the state of row i in a shape, or zeros if it has none.
func (e *Engine) carried(slots engine.Slots, i int, shape ...int) *val {
	if x := slots.At(i); x != nil {
		return e.in(x).as(shape...)
	}
	return e.full(0, shape...)
}

// carry sets the state of row i after the operation, if it has one.
func (e *Engine) carry(slots engine.Slots, i int, v func() *val) {
	if slots.At(i) != nil {
		e.next(&slots[i].X, v())
	}
}

func (e *Engine) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.one("CausalConv", func() *val {
		d := x.Dim(-1)
		taps := e.in(w).as(d, -1)
		k := taps.dim(1)
		before := func(i int, x *val) *val {
			all := concat(0, e.carried(slots, i, k-1, d), x)
			e.carry(slots, i, func() *val { return all.slice(0, r.Len(i), k-1) })
			return all
		}
		filter := func(all *val) *val { return all.windows(1, k).einsum("btjc,cj->btc", taps).as(-1, d) }
		rows, y := e.in(x).rows(), (*val)(nil)
		switch l := r.Equal(); {
		case l == 0:
			y = rows.each(r, func(i int, x *val) *val { return filter(before(i, x).unsqueeze(0)) })
		case len(slots) == 0:
			y = filter(rows.as(-1, l, d).pad(1, k-1, 0))
		default:
			y = filter(rows.each(r, before).as(-1, k-1+l, d))
		}
		return y.addTo(e.in(bias)).act(a).as(x.Shape()...)
	})
}

// conv returns the last l positions of the causal convolution of v (b, n, h, q) with the kernel k (m, h). v is preceded
// by zeros.
func (v *val) conv(k *val, l int) *val {
	n := v.dim(1)
	m := min(k.dim(0), n)
	k = k.slice(0, 0, m)
	more := m - 1 - (n - l)
	if more <= 0 {
		v = v.slice(1, -more, n+more)
	}
	if c, ok := v.e.core.(Convolver); ok {
		if points := c.Points(l, m); points > 0 {
			return v.bySpectra(c, k, l, points)
		}
	}
	if more > 0 {
		v = v.pad(1, more, 0)
	}
	return v.windows(1, m).einsum("btjhq,jh->bthq", k.reversed(0))
}

// convRows returns the convolution of all rows of v (n, h, q). Rows of equal length are convolved at once.
func (v *val) convRows(k *val, r *engine.Rows) *val {
	h, q := v.dim(1), v.dim(2)
	if l := r.Equal(); l > 0 {
		return v.as(r.Count(), l, h, q).conv(k, l).as(-1, h, q)
	}
	return v.each(r, func(i int, v *val) *val {
		l := r.Len(i)
		return v.as(1, l, h, q).conv(k, l).as(l, h, q)
	})
}

// longConv is conv for channels (n, h), with an optional skip.
func (v *val) longConv(k, skip *val, l int) *val {
	y := v.as(1, v.dim(0), -1, 1).conv(k, l).as(l, -1)
	return y.skipped(v.slice(0, v.dim(0)-l, l), skip)
}

// longConvRows is longConv for all rows.
func (v *val) longConvRows(k, skip *val, r *engine.Rows) *val {
	return v.as(-1, v.dim(1), 1).convRows(k, r).as(-1, v.dim(1)).skipped(v, skip)
}

// skipped returns v + D u, or v if skip is nil.
func (v *val) skipped(u, skip *val) *val {
	if skip == nil {
		return v
	}
	return v.add(u.mul(skip.flat()))
}

func (e *Engine) GatedLongConv(g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	return e.one("GatedLongConv", func() *val {
		u, k, skip := e.in(g.V), e.in(k), e.in(skip)
		if g.K != nil {
			u = e.in(g.K).mul(u)
		}
		y := u.longConvRows(k, skip, r)
		if g.Q != nil {
			y = e.in(g.Q).mul(y)
		}
		return y
	})
}

func (e *Engine) CachedLongConv(u, k, skip *tensor.Tensor, r *engine.Rows,
	caches []*engine.ConvCache) *tensor.Tensor {
	return e.one("CachedLongConv", func() *val {
		k, skip := e.in(k), e.in(skip)
		return e.in(u).each(r, func(i int, u *val) *val {
			if c := caches[i]; c != nil {
				return e.afterInputs(c, u).longConv(k, skip, r.Len(i))
			}
			return u.longConv(k, skip, r.Len(i))
		})
	})
}

// afterInputs adds u to a cache. It returns the inputs that the outputs of u depend on, with those of u last.
func (e *Engine) afterInputs(c *engine.ConvCache, u *val) *val {
	past, n, d := c.Past(), u.dim(0), u.dim(1)
	c.Sums = nil
	if e.Recording {
		all := u
		if past > 0 {
			all = concat(0, e.in(c.U).slice(0, c.Len-past, past), u)
		}
		c.Len = past + n
		e.put(&c.U, all)
		return all
	}
	if c.U == nil || c.U.Storage() == nil || c.Len+n > c.U.Dim(0) {
		more := e.lasting(2*(past+n), d)
		if past > 0 {
			e.write(more, 0, e.in(c.U).slice(0, c.Len-past, past))
		}
		c.U, c.Len = more, past
	}
	e.write(c.U, c.Len, u)
	c.Len += n
	return e.in(c.U).slice(0, c.Len-n-past, past+n)
}

// Ahead returns 0: nothing is summed before it is needed.
func (e *Engine) Ahead() int { return 0 }

func (e *Engine) BothWays(u, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	return e.one("BothWays", func() *val {
		k, ahead, skip := e.in(k), e.in(ahead), e.in(skip)
		return e.in(u).each(r, func(i int, u *val) *val {
			l := r.Len(i)
			y := u.longConv(k, skip, l)
			if l == 1 {
				return y
			}
			return y.add(u.slice(0, 1, l-1).reversed(0).longConv(ahead, nil, l-1).reversed(0).pad(0, 0, 1))
		})
	})
}

// KernelRows returns k itself, which is already in rows.
func (e *Engine) KernelRows(k *tensor.Tensor, h int) *tensor.Tensor { return k }

// KernelTaps returns the length of the h kernels k (l, h), or 0 if k is not of that shape.
func (e *Engine) KernelTaps(k *tensor.Tensor, h int) int {
	if k.Dims() != 2 || k.Dim(1) != h {
		return 0
	}
	return k.Dim(0)
}
