//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// The operations along sequences read the positions of a row one after another, and update its state in place: any way
// to cut a row has the same bits.

func (e *Engine) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	if e.Recording {
		return e.Engine.CausalConv(x, w, bias, a, r, slots)
	}
	const outputs, keeps, both = 1, 2, 3
	y, d := e.like(x, x.Dim(-1)), x.Dim(-1)
	for i := range r.Count() {
		at, before, l := r.From(i), e.state(slots.At(i)), r.Len(i)
		p := new(args).address(e.addressAt(y, at), e.addressAt(x, at), e.address(w), e.address(bias), before).
			int(l, d, w.Len()/d, int(a)).work(4*d*(2*l+3*w.Len()/d), 2*l*w.Len())
		switch {
		case l == 1:
			e.run("filter", p, blocks(d, 64), both)
		case before == 0:
			e.run("filter", p, blocks(l*d, 64), outputs)
		default:
			e.run("filter", p, blocks(l*d, 64), outputs)
			e.run("filter", p, blocks(d, 64), keeps)
		}
	}
	return y
}

func (e *Engine) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	if e.Recording {
		return e.Engine.SelectiveScan(u, delta, a, bc, dw, groups, r, slots)
	}
	const perState = 1
	d := u.Dim(-1)
	y := e.like(u, d)
	for i := range r.Count() {
		at := r.From(i)
		e.run("scan", new(args).address(e.addressAt(y, at), e.addressAt(u, at), e.addressAt(delta, at), e.address(a),
			e.addressAt(bc, at), e.address(dw), e.state(slots.At(i))).
			int(r.Len(i), d, a.Len()/d, 1, groups, d, bc.Dim(-1)).
			work(4*(r.Len(i)*(3*d+bc.Dim(-1))+3*a.Len()), 6*r.Len(i)*a.Len()), blocks(d, 64), perState)
	}
	return y
}

func (e *Engine) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	if e.Recording {
		return e.Engine.SSD(xbc, dt, a, dw, headDim, groups, r, slots)
	}
	const perHead = 0
	d, all := a.Len()*headDim, xbc.Dim(-1)
	y := e.like(xbc, d)
	for i := range r.Count() {
		at := r.From(i)
		x := e.addressAt(xbc, at)
		e.run("scan", new(args).address(e.addressAt(y, at), x, e.addressAt(dt, at), e.address(a), x+4*uint64(d),
			e.address(dw), e.state(slots.At(i))).
			int(r.Len(i), d, (all-d)/(2*groups), headDim, groups, all, all).
			work(4*(r.Len(i)*(d+all)+2*d*(all-d)/(2*groups)), 6*r.Len(i)*d*(all-d)/(2*groups)), blocks(d, 64), perHead)
	}
	return y
}

func (e *Engine) ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	if e.Recording {
		return e.Engine.ShiftSSM(x, bw, cw, dw, r, slots)
	}
	d := x.Dim(-1)
	y := e.like(x, d)
	for i := range r.Count() {
		at, state := r.From(i), e.state(slots.At(i))
		if state == 0 {
			state = e.address(e.Full(0, d, bw.Len()/d))
		}
		e.run("shift", new(args).address(e.addressAt(y, at), e.addressAt(x, at), e.address(bw), e.address(cw),
			e.address(dw), state).int(r.Len(i), d, bw.Len()/d).
			work(4*(2*r.Len(i)*d+4*bw.Len()), 4*r.Len(i)*bw.Len()), blocks(d, 64))
	}
	return y
}

func (e *Engine) DiagSSM(g engine.Gates, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	if e.Recording {
		return e.Engine.DiagSSM(g, s, skip, r, slots)
	}
	y, major := e.like(g.V, g.V.Dim(-1)), 0
	if g.Order == engine.HeadMajor {
		major = 1
	}
	for i := range r.Count() {
		at, d := r.From(i), s.H*g.HeadDim
		n := d * g.HeadDim * s.N // of the state, in pairs
		e.run("diagonal", new(args).address(e.addressAt(y, at), e.addressAt(g.Q, at), e.addressAt(g.K, at),
			e.addressAt(g.V, at), e.address(s.Abar), e.address(s.Bbar), e.address(s.C), e.address(skip),
			e.state(slots.At(i))).int(r.Len(i), s.H, g.HeadDim, s.N, major).
			work(16*(r.Len(i)*d+n), 8*r.Len(i)*n), blocks(d, 64))
	}
	return y
}
