package autograd

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// LongConv is the causal convolution of every channel of u (b, l, d) with a kernel of its own, and a skip:
//
//	y[t, c] = Σ_{j≤t} k[j, c]·u[t-j, c] + D[c]·u[t, c]
//
// with the kernels k (l_k, d), or in tiles (⌈d/16⌉, l_k, 16) as DiagKernel gives them, of which the first l taps count, and D (d)
// or nil for zero.
func (t *Tape) LongConv(u, k, skip *tensor.Tensor) *tensor.Tensor {
	return t.GatedLongConv(Gates{V: u}, k, skip)
}

// GatedLongConv is LongConv between two gates, either of which may be nil: q ⊙ (k∗u + D u), u = g.K ⊙ g.V. HeadDim must be 1.
func (t *Tape) GatedLongConv(g Gates, k, skip *tensor.Tensor) *tensor.Tensor {
	l, d := g.V.Dim(1), g.V.Dim(2)
	g.HeadDim = max(1, g.HeadDim)
	if !areKernels(k, d) || skip != nil && skip.Len() != d || g.HeadDim != 1 ||
		g.Q != nil && !g.Q.SameShape(g.V) || g.K != nil && !g.K.SameShape(g.V) {
		shapePanic("LongConv", g.Q, g.K, g.V, k, skip)
	}
	if min(l, tapsOf(k)) <= directUpTo {
		return t.directConv(g, k, skip)
	}
	y := t.like(g.V)
	t.convolvePiece(y, g, k, skip, 0, l, t.wants(g.Q, g.K, g.V, k, skip))
	return y
}

// convolvePiece is GatedLongConv over the rows [from, from+l), written to those of y, and recorded if record is set.
func (t *Tape) convolvePiece(y *tensor.Tensor, g Gates, k, skip *tensor.Tensor, from, l int, record bool) {
	t.convolve(convolution{Gates: g, heads: g.V.Dim(2), from: from, l: l, kern: k, skip: skip, y: y, plan: kernel.NewConvPlan(l)}, record)
}

// convolve computes c, and records it if record is set.
func (t *Tape) convolve(c convolution, record bool) {
	if record {
		c.keep(t)
	}
	c.run()
	if record {
		op := take[longConvOp](t)
		op.convolution = c
		t.push(op)
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
