package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// DeltaRule steps through the positions.
func (e *Engine) DeltaRule(x engine.Delta, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	return e.one("DeltaRule", func() *val {
		h, each, dk := x.Heads, x.Heads/x.KeyHeads, x.KeyDim()
		// heads returns a tensor (l, h·n) as (l, h, n), repeated where heads share it.
		heads := func(t *tensor.Tensor, n, share int) *val {
			return e.in(t).as(-1, h/share, 1, n).over([]int{r.Total(), h / share, share, n}).as(-1, h, n)
		}
		q, k, v := heads(x.Q, dk, each), heads(x.K, dk, each), heads(x.V, x.ValueDim(), 1)
		g := e.in(x.G).as(r.Total(), h, -1)
		decay := g.exp()
		var a, b *val
		switch {
		case x.A != nil:
			a, b = heads(x.A, dk, 1), heads(x.B, dk, 1)
		case x.Beta != nil:
			beta := heads(x.Beta, 1, 1)
			a, b, v = k.mul(beta).neg(), k.mul(decay), v.mul(beta)
		}
		return v.each(r, func(i int, v *val) *val {
			s := e.carried(slots, i, h, dk, x.ValueDim())
			var y []*val
			for t := range r.Len(i) {
				p := r.From(i) + t
				// A decay of 0 also forgets numbers that are not finite.
				d := decay.pick(0, p).unsqueeze(2)
				next := s.mul(d).where(d.positive(), e.full(0)).add(k.pick(0, p).einsum("hi,hj->hij", v.pick(0, t)))
				if a != nil {
					u := b.pick(0, p).einsum("hi,hij->hj", s)
					next = next.add(a.pick(0, p).einsum("hi,hj->hij", u))
				}
				s = next
				y = append(y, q.pick(0, p).einsum("hi,hij->hj", s).unsqueeze(0))
			}
			e.carry(slots, i, func() *val { return s })
			return concat(0, y...).as(r.Len(i), -1)
		})
	})
}
