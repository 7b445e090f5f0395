//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// The operations along sequences read the positions of a row one after another, and update its state in place: any way
// to cut a row has the same bits. All rows are one launch.

func (e *Engine) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	const mostTaps = 16 // that a thread of filter_grad holds
	if e.Recording && (slots.Any() || w.Len() > mostTaps*x.Dim(-1)) {
		return e.Engine.CausalConv(x, w, bias, a, r, slots)
	}
	const outputs, keeps, both = 1, 2, 3
	y, d := e.like(x, x.Dim(-1)), x.Dim(-1)
	k, t := w.Len()/d, e.rowsOf(r, slots)
	filter := func(part uint32, l, moved, flops int) {
		from, stride := e.strided(x)
		e.each("filter", &t, []uint64{e.address(y), from, e.address(w), e.address(bias)}, blocks(l*d, 64),
			func(p *args) { p.int(t.longest, d, k, int(a), t.count, stride).work(moved, flops) }, part)
	}
	n, kept := r.Total(), 8*d*(k-1)*t.count
	if t.longest == 1 && !e.Recording {
		filter(both, 1, 4*(2*n*d+w.Len())+kept, 2*n*w.Len())
		return y
	}
	filter(outputs, t.longest, 4*(2*n*d+w.Len())+kept, 2*n*w.Len())
	if slots.Any() {
		filter(keeps, 1, kept, 0)
	}
	e.filtered(x, w, bias, y, a, r)
	return y
}

func (e *Engine) ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	d := x.Dim(-1)
	m := bw.Len() / d
	const most = 1 << 10 // states of a channel in the memory of a workgroup
	if e.Recording || m > most {
		return e.Engine.ShiftSSM(x, bw, cw, dw, r, slots)
	}
	y, t := e.like(x, d), e.rowsOf(r, slots)
	e.each("shift", &t, []uint64{e.address(y), e.address(x), e.address(bw), e.address(cw), e.address(dw)}, blocks(d, 4),
		func(p *args) {
			p.int(d, t.count).work(4*(2*x.Len()+2*bw.Len()*(1+t.count)), 4*r.Total()*bw.Len())
		}, uint32(m))
	return y
}

func (e *Engine) DiagSSM(g engine.Gates, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	if e.Recording {
		return e.Engine.DiagSSM(g, s, skip, r, slots)
	}
	y, major, t := e.like(g.V, g.V.Dim(-1)), 0, e.rowsOf(r, slots)
	if g.Order == engine.HeadMajor {
		major = 1
	}
	d := s.H * g.HeadDim
	n := d * g.HeadDim * s.N // of the state, in pairs
	e.each("diagonal", &t, []uint64{e.address(y), e.address(g.Q), e.address(g.K), e.address(g.V), e.address(s.Abar),
		e.address(s.Bbar), e.address(s.C), e.address(skip)}, blocks(d, 16), func(p *args) {
		p.int(s.H, g.HeadDim, s.N, major, t.count).work(16*(r.Total()*d+n*t.count)+24*s.H*s.N, 8*r.Total()*n)
	})
	return y
}
