package compose

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Trapezoid adds what a position and its predecessor write, and runs one scan over the sums.
func (e *Engine) Trapezoid(x engine.Trapezoid, r *engine.Rows, slots engine.TrapezoidSlots) *tensor.Tensor {
	return e.one("Trapezoid", func() *val {
		h, n, p := x.Heads, x.KeyDim(), x.ValueDim()
		q, k := e.in(x.Q).as(-1, x.Ranks, h, n), e.in(x.K).as(-1, x.Ranks, h, n)
		a, dt, lambda := e.in(x.A).rows(), e.in(x.Dt).rows(), e.in(x.Lambda).rows()
		late := lambda.mul(dt)
		early, decay := dt.sub(late), a.mul(dt).exp()
		early = early.mul(decay)
		return e.in(x.V).as(-1, x.Ranks, h, p).each(r, func(i int, v *val) *val {
			l := r.Len(i)
			k := k.row(r, i)
			beforeK := concat(0, e.carried(slots.K, i, 1, x.Ranks, h, n), k.slice(0, 0, l-1))
			beforeV := concat(0, e.carried(slots.V, i, 1, x.Ranks, h, p), v.slice(0, 0, l-1))
			written := func(k, v, weight *val) *val {
				return k.mul(weight.row(r, i).as(l, 1, h, 1)).einsum("trhn,trhp->thnp", v)
			}
			in := written(k, v, late).add(written(beforeK, beforeV, early))
			first := pair{re: e.carried(slots.S, i, h, n, p)}
			s := scan(pair{re: decay.row(r, i).as(l, h, 1, 1)}, pair{re: in}, first).re
			e.carry(slots.S, i, func() *val { return s.slice(0, l-1, 1) })
			e.carry(slots.K, i, func() *val { return k.slice(0, l-1, 1) })
			e.carry(slots.V, i, func() *val { return v.slice(0, l-1, 1) })
			y := q.row(r, i).einsum("trhn,thnp->trhp", s)
			return y.add(v.mul(e.in(x.D).as(h, 1))).as(l, -1)
		})
	})
}

// Phase sums in log l steps, like scan, and removes whole turns in each step.
func (e *Engine) Phase(rates, dt *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	return e.one("Phase", func() *val {
		n, h := rates.Dim(-1), dt.Dim(-1)
		steps := e.in(dt).as(-1, h, 1).mul(e.in(rates).as(-1, 1, n)).as(-1, h*n).turned()
		return steps.each(r, func(i int, v *val) *val {
			l := r.Len(i)
			first := v.slice(0, 0, 1).add(e.carried(slots, i, 1, h*n)).less2Pi()
			v = concat(0, first, v.slice(0, 1, l-1))
			for n := 1; n < l; n *= 2 {
				v = concat(0, v.slice(0, 0, n), v.slice(0, n, l-n).add(v.slice(0, 0, l-n)).less2Pi())
			}
			e.carry(slots, i, func() *val { return v.slice(0, l-1, 1) })
			return v
		})
	})
}

// less2Pi returns v, which must be between 0 and 4π, reduced to less than 2π.
func (v *val) less2Pi() *val { return v.where(v.lessThan(2*math.Pi), v.plus(-2*math.Pi)) }

// turned returns v, which must be of less than a thousand turns, reduced to between 0 and 2π.
func (v *val) turned() *val {
	for turns := 512.0; turns >= 1; turns /= 2 {
		size := 2 * math.Pi * turns
		v = v.where(v.lessThan(size), v.plus(-size))
		v = v.plus(size).where(v.lessThan(-size), v)
	}
	return v.plus(2*math.Pi).where(v.lessThan(0), v)
}

// Turn rotates all vectors at once.
func (e *Engine) Turn(x, bias, phase *tensor.Tensor, by engine.Turning) *tensor.Tensor {
	return e.one("Turn", func() *val {
		n, h := by.Dim(x), by.Heads
		angles := phase.Dim(-1) / h
		u := e.in(x).as(-1, by.Ranks, by.Groups, 1, n)
		u = u.over([]int{u.dim(0), by.Ranks, by.Groups, h / by.Groups, n}).as(-1, by.Ranks, h, n)
		u = u.add(e.in(bias).as(by.Ranks, h, n))
		a, b := u.as(-1, by.Ranks, h, n/2, 2).pick(4, 0), u.as(-1, by.Ranks, h, n/2, 2).pick(4, 1)
		if by.Halves {
			a, b = u.slice(3, 0, n/2), u.slice(3, n/2, n/2)
		}
		φ := e.in(phase).as(-1, 1, h, angles).pad(3, 0, n/2-angles)
		c, s := φ.cos(), φ.sin()
		a, b = a.mul(c).sub(b.mul(s)), a.mul(s).add(b.mul(c))
		y := stack(a, b)
		if by.Halves {
			y = concat(3, a, b)
		}
		return y.as(-1, by.Ranks*h*n).like(e.in(x))
	})
}
