package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// GatedLongConv is LongConv between two gates, either of which may be nil: q ⊙ (k∗u + D u), u = g.K ⊙ g.V. HeadDim must
// be 1.
func (eng *Engine) GatedLongConv(g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	g.HeadDim = max(1, g.HeadDim)
	y := eng.like(g.V)
	eng.longConv(y, g, k, skip, r, func(int) bool { return true })
	return y
}

// longConv computes the rows of y for which use is true. One is summed directly, or transformed together with all that
// have the same plan, as its own length and that of the kernels say.
func (eng *Engine) longConv(y *tensor.Tensor, g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows,
	use func(i int) bool) {
	direct := func(i int) bool { return min(r.Len(i), tapsOf(k)) <= directUpTo }
	eng.directConv(y, g, k, skip, r, func(i int) bool { return use(i) && direct(i) })
	record := eng.wants(g.Q, g.K, g.V, k, skip)
	groups(eng, r, func(i int) transform {
		if !use(i) || direct(i) {
			return transform{}
		}
		return transformOf(r.Len(i), tapsOf(k))
	}, func(rows []int, of transform) {
		c := eng.convolution(longConv, y, g, k, skip)
		c.over(r, rows)
		c.taps = of.taps
		eng.convolve(c, record)
	})
}

// transform is what rows have in common that are convolved with the same spectra of the kernels.
type transform struct{ points, taps int }

// transformOf is that of a row of l positions and kernels of so many taps. A row has no more taps than positions, so
// that how many more there are for other rows does not change a bit.
func transformOf(l, taps int) transform { return transform{kernel.NewConvPlan(l).N(), min(taps, l)} }

// convolution returns one of all channels without rows, plan and states, as it has to be for an operation of that name.
func (eng *Engine) convolution(name string, y *tensor.Tensor, g engine.Gates, k, skip *tensor.Tensor) *convolutionOp {
	op := take[convolutionOp](eng)
	c := &op.convolution
	*c = convolution{
		Gates: g, heads: g.V.Dim(-1) / g.HeadDim, kern: k, skip: skip, y: y,
		rows: c.rows[:0], before: c.before[:0], after: c.after[:0], grads: convGrads{states: c.grads.states[:0]},
	}
	op.name = name
	return op
}

// over makes c one over the given rows of r, which have a plan in common.
func (c *convolution) over(r *engine.Rows, rows []int) {
	for _, i := range rows {
		c.rows = append(c.rows, spanOf(r, i))
	}
	c.plan = kernel.NewConvPlan(c.longest())
}

// overPiece makes c one over the positions [from, from+l) of the given rows of r, and less where they end before.
func (c *convolution) overPiece(r *engine.Rows, rows []int, from, l int) {
	for _, i := range rows {
		row := spanOf(r, i)
		c.rows = append(c.rows, span{row.at + from, min(l, row.len-from)})
		c.pieces = c.pieces || l < row.len
	}
	c.plan = kernel.NewConvPlan(c.longest())
}

// convolve computes op, and records it if record is set.
func (eng *Engine) convolve(op *convolutionOp, record bool) {
	if record {
		op.keep(eng)
	}
	op.run()
	if record {
		op.first = !op.y.NeedsGrad()
		eng.push(op)
	}
}

// The operations that are convolutions.
const (
	longConv = "LongConv"
	diagSSM  = "DiagSSM"
)

// convolutionOp is a convolution of an operation.
type convolutionOp struct {
	convolution
	name string
}

func (o *convolutionOp) Name() string { return o.name }
