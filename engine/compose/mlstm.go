package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// MLSTM steps through the positions.
func (e *Engine) MLSTM(x engine.MLSTM, r *engine.Rows, slots engine.MLSTMSlots) *tensor.Tensor {
	return e.one("MLSTM", func() *val {
		h, dk, dv := x.Heads, x.KeyDim(), x.ValueDim()
		q, k := e.in(x.Q).as(-1, h, dk), e.in(x.K).as(-1, h, dk)
		in, forget := e.in(x.I).as(-1, h), e.in(x.F).as(-1, h)
		return e.in(x.V).as(-1, h, dv).each(r, func(i int, v *val) *val {
			c, n, m := e.carried(slots.C, i, h, dk, dv), e.carried(slots.N, i, h, dk), e.carried(slots.M, i, h)
			var y []*val
			for t := range r.Len(i) {
				p := r.From(i) + t
				kept, written := forget.pick(0, p).add(m), in.pick(0, p)
				m = written.where(kept.less(written), kept)
				a, w := kept.sub(m).exp().unsqueeze(1), written.sub(m).exp().unsqueeze(1)
				k := k.pick(0, p).mul(w)
				c = c.mul(a.unsqueeze(2)).add(k.einsum("hi,hj->hij", v.pick(0, t)))
				n = n.mul(a).add(k)
				s, floor := n.einsum("hi,hi->h", q.pick(0, p)), m.neg().exp()
				s = s.neg().where(s.lessThan(0), s)
				d := floor.where(s.less(floor), s).plus(x.Eps)
				y = append(y, q.pick(0, p).einsum("hi,hij->hj", c).div(d.unsqueeze(1)).unsqueeze(0))
			}
			e.carry(slots.C, i, func() *val { return c })
			e.carry(slots.N, i, func() *val { return n })
			e.carry(slots.M, i, func() *val { return m })
			return concat(0, y...).as(r.Len(i), -1)
		})
	})
}
