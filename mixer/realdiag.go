package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// realDiagonal holds diagonal systems whose modes are real numbers, A = -exp(logA) or another RealPart of logA. They
// run as complex ones without imaginary parts. The output is 2 Σ_n C x, twice the sum, as in the official layer.
type realDiagonal struct {
	logDt, logA, b, c *tensor.Tensor        // (d), (d, n), b (d, n) or nil for ones, c (1, d, n)
	zeros             func() *tensor.Tensor // the imaginary parts of A
	disc              engine.Discretization
	part              engine.RealPart

	cached engine.Cache // *engine.DiagParams
}

// params returns the complex parameters. While the tape does not record, they are cached until B and C change, and the
// discretized system with them.
func (r *realDiagonal) params(t *autograd.Tape) *engine.DiagParams {
	p := &engine.DiagParams{LogDt: r.logDt, InvAReal: r.logA, AImag: r.zeros(), Disc: r.disc, Real: r.part}
	if t.Recording() {
		p.C = t.RealPairs(r.c)
		if r.b != nil {
			p.B = t.RealPairs(r.b)
		}
		return p
	}
	of := [2]*tensor.Tensor{r.c, r.b}
	if p, ok := r.cached.Load(t.Engine(), of[:]...).(*engine.DiagParams); ok {
		return p
	}
	p.C = t.RealPairs(r.c).Clone()
	if r.b != nil {
		p.B = t.RealPairs(r.b).Clone()
	}
	r.cached.Store(t.Engine(), p, of[:]...)
	return p
}
