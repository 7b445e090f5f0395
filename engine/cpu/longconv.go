package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// longConv is GatedLongConv without gates.
func (eng *Engine) longConv(u, k, skip *tensor.Tensor) *tensor.Tensor {
	return eng.oldGatedLongConv(engine.Gates{V: u}, k, skip)
}

// GatedLongConv is LongConv between two gates, either of which may be nil: q ⊙ (k∗u + D u), u = g.K ⊙ g.V. HeadDim must be 1.
func (eng *Engine) oldGatedLongConv(g engine.Gates, k, skip *tensor.Tensor) *tensor.Tensor {
	l := g.V.Dim(1)
	g.HeadDim = max(1, g.HeadDim)
	if min(l, tapsOf(k)) <= directUpTo {
		return eng.directConv(g, k, skip)
	}
	y := eng.like(g.V)
	eng.convolvePiece(y, g, k, skip, 0, l, eng.wants(g.Q, g.K, g.V, k, skip))
	return y
}

// convolvePiece is GatedLongConv over the rows [from, from+l), written to those of y, and recorded if record is set.
func (eng *Engine) convolvePiece(y *tensor.Tensor, g engine.Gates, k, skip *tensor.Tensor, from, l int, record bool) {
	eng.convolve(convolution{Gates: g, heads: g.V.Dim(2), from: from, l: l, kern: k, skip: skip, y: y, plan: kernel.NewConvPlan(l)}, record)
}

// convolve computes c, and records it if record is set.
func (eng *Engine) convolve(c convolution, record bool) {
	if record {
		c.keep(eng)
	}
	c.run()
	if record {
		op := take[longConvOp](eng)
		op.convolution = c
		eng.push(op)
	}
}

// longConvOp is that of LongConv and BothWays.
type longConvOp struct{ convolution }

func (o *longConvOp) Name() string { return "LongConv" }

// Outputs gives y to the operation of the first piece, the last one to go back.
func (o *longConvOp) Outputs(f func(*tensor.Tensor)) {
	if o.from == 0 {
		f(o.y)
	}
}
