package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// DSSSystem discretizes the diagonal system of dssParams.
func (eng *Engine) DSSSystem(p *engine.DSSParams) *engine.DiagSystem {
	return eng.DiagSystem(eng.dssParams(p, false))
}

// DSSKernel adds the kernels of modes with Re Λ > 0: those of the mirrored system, reversed.
func (eng *Engine) DSSKernel(p *engine.DSSParams, l int) *tensor.Tensor {
	k := eng.DiagKernel(eng.DSSSystem(p), l)
	if p.LogNegRe {
		return k
	}
	mirrored := eng.DiagKernel(eng.DiagSystem(eng.dssParams(p, true)), l)
	return eng.Add(k, eng.Reverse(mirrored, 0, engine.EqualRows(k.Dim(0), l)))
}

// dssParams returns the parameters of a diagonal system with the kernel of p, sampled by zero-order hold with dt = B =
// 1: A = z and 2 C (exp(z) - 1)/z = w, where w is W after scaling. The mirrored system has the modes with Re Λ > 0, as
// -z: it runs backwards in time.
func (eng *Engine) dssParams(p *engine.DSSParams, mirrored bool) *engine.DiagParams {
	n := p.Re.Len()
	h := p.W.Len() / (2 * n)
	record := eng.wants(p.Re, p.Im, p.LogDt, p.W)
	kept, params := &p.Cache[0], p.Tensors()
	if mirrored {
		kept = &p.Cache[1]
	}
	if !record {
		if d, ok := kept.Load(kind, params[:]...).(*engine.DiagParams); ok {
			return d
		}
	}
	alloc := tensor.New
	if record {
		alloc = eng.New
	}
	d := &engine.DiagParams{LogDt: alloc(h), InvAReal: alloc(h, n), AImag: alloc(h, n), C: alloc(h, n, 2),
		Disc: engine.ZOH}
	d.LogDt.Zero()
	op := dssOp{p: p, d: d, mirrored: mirrored}
	for i := range h * n {
		m := op.mode(i)
		d.InvAReal.Data()[i], d.AImag.Data()[i] = float32(math.Log(-real(m.z))), float32(imag(m.z))
		setPair(d.C.Data(), i, m.w*m.phi/2)
	}
	if !record {
		kept.Store(kind, d, params[:]...)
		return d
	}
	eng.push("DSS", save(eng, op), d.InvAReal, d.AImag, d.C)
	return d
}
