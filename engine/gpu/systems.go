//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// DiagSystem discretizes a system in one launch, and computes its gradients in another. A system that is not recorded,
// or that has uneven steps, is composed; one that is not recorded is also cached.
func (e *Engine) DiagSystem(p *engine.DiagParams) *engine.DiagSystem {
	if !e.Recording || p.Uneven {
		return e.Engine.DiagSystem(p)
	}
	h := p.LogDt.Len()
	n := p.InvAReal.Len() / h
	s := &engine.DiagSystem{H: h, N: n, Abar: e.New(h, n, 2), Bbar: e.New(h, n, 2), C: e.New(h, n, 2)}
	made, params := []*tensor.Tensor{s.Abar, s.Bbar, s.C}, p.Tensors()
	launch := func(back uint32, modes, heads int, more func(a *args), outputs ...*tensor.Tensor) {
		a := new(args)
		for _, t := range append(outputs, params[:4]...) {
			a.address(e.address(t))
		}
		more(a)
		a.int(h, n).work(4*(modes*h*n+heads*h), 60*h*n)
		e.run("system", a, h, back, uint32(p.Disc), uint32(p.Real))
	}
	launch(0, 12, 1, func(a *args) { a.address(e.address(p.C), 0, 0, 0, 0) }, made...)
	e.Record("DiagSystem", made, params[:], func() {
		var grads [5]uint64
		for i, t := range params {
			grads[i] = e.plus(t)
		}
		launch(1, 24, 3, func(a *args) { a.address(grads[4]).address(grads[:4]...) }, e.Grad(s.Abar), e.Grad(s.Bbar),
			e.Grad(s.C))
	})
	return s
}
