package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SLSTM steps through the positions.
func (e *Engine) SLSTM(x engine.SLSTM, r *engine.Rows, slots engine.SLSTMSlots) *tensor.Tensor {
	return e.one("SLSTM", func() *val {
		h, n := x.Heads, x.HeadDim()
		in, rw, bias := e.in(x.X).as(-1, h, n), e.in(x.R).as(h, n, 4, n), e.in(x.Bias).as(h, 4, n)
		var gates []*val
		for _, w := range x.W {
			gates = append(gates, in.matmul("thk,hjk->thj", e.in(w).as(h, n, n)).unsqueeze(2))
		}
		return concat(2, gates...).each(r, func(i int, u *val) *val {
			var s [4]*val
			for k, slots := range slots.All() {
				s[k] = e.carried(slots, i, h, n)
			}
			y, c, norm, m := s[0], s[1], s[2], s[3]
			// fresh is 1 for a row whose n is zero in all channels.
			fresh := norm.constant().abs().as(1, -1).max().lessThan(1e-45).as(1, 1)
			var all []*val
			for t := range r.Len(i) {
				raw := u.pick(0, t).add(y.einsum("hk,hkgj->hgj", rw)).add(bias)
				in, most := raw.pick(1, 0), e.full(engine.SLSTMForgets)
				f := raw.pick(1, 1)
				kept := m.sub(f.where(f.less(most), most).neg().softplus())
				larger := in.where(kept.less(in), kept)
				m = larger
				if t == 0 {
					m = in.where(fresh, larger)
				}
				keep, write := kept.sub(m), in.sub(m).exp()
				keep = keep.where(keep.lessThan(0), e.full(0)).exp()
				c = c.mul(keep).add(write.mul(raw.pick(1, 2).tanh()))
				norm = norm.mul(keep).add(write)
				y = raw.pick(1, 3).sigmoid().mul(c).div(norm)
				all = append(all, y.unsqueeze(0))
			}
			for k, v := range [4]*val{y, c, norm, m} {
				e.carry(slots.All()[k], i, func() *val { return v })
			}
			return concat(0, all...).as(r.Len(i), -1)
		}).as(x.X.Shape()...)
	})
}
