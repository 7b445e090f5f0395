//go:build gpu

package gpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// The operations along sequences read the positions of a row one after another and update its state in place, so a row
// has the same bits however it is split over calls. One launch computes all rows.

func (e *Engine) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	const mostTaps = 16 // taps that a thread of filter_grad can hold
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
	const most = 1 << 10 // states of a channel that fit into the memory of a workgroup
	if e.Recording || m > most {
		return e.Engine.ShiftSSM(x, bw, cw, dw, r, slots)
	}
	s := &openShift{y: e.like(x, d), r: r, t: e.rowsOf(r, slots), m: m,
		moved: 8 * (x.Len() + bw.Len()*(1+r.Count())), flops: 4 * r.Total() * bw.Len()}
	y := e.address(s.y)
	s.from = [4]uint64{e.address(x), e.address(bw), e.address(cw), e.address(dw)}
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	table := e.c.table(s.t.data)
	e.postpone(s, func() {
		e.c.launch("shift", new(args).address(y).address(s.from[:]...).address(table).int(d, s.t.count).
			work(s.moved, s.flops), s.t.count*blocks(d, 4), uint32(m))
	})
	return s.y
}

// openShift is a postponed shift that the system after it may fuse.
type openShift struct {
	y               *tensor.Tensor
	r               *engine.Rows
	t               rows
	from            [4]uint64 // x, B, C and D
	m, moved, flops int
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
	n := d * g.HeadDim * s.N // complex numbers of a state
	from := []uint64{e.address(y), e.address(g.Q), e.address(g.K), e.address(g.V), e.address(s.Abar), e.address(s.Bbar),
		e.address(s.C), e.address(skip)}
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	open, data := e.shifted(g, r), t.data
	if open != nil {
		data = slices.Concat(t.data, open.t.data)
	}
	table := e.c.table(data)
	shift, with := &openShift{m: 1}, uint32(0)
	if open != nil && open == postponed[openShift](e.c) { // copying the table may have recorded the shift
		shift, with, e.c.later = open, 1, nil
	}
	a := new(args).address(from...).address(table).int(s.H, g.HeadDim, s.N, major, t.count, 0).address(shift.from[:]...)
	e.launch("diagonal", a.work(16*(r.Total()*d+n*t.count)+24*s.H*s.N+shift.moved, 8*r.Total()*n+shift.flops),
		t.count*blocks(d, 16), uint32(shift.m), with)
	return y
}

// shifted returns the shift that computes the keys of g, or nil if the system cannot fuse it. c.mu must be held.
func (e *Engine) shifted(g engine.Gates, r *engine.Rows) *openShift {
	const most = 64 // states of a channel that fit into the memory of a workgroup of 16 channels
	s := postponed[openShift](e.c)
	if s == nil || g.K != s.y || s.r != r || g.HeadDim != 1 || s.m > most {
		return nil
	}
	return s
}
