package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// GatedLongConv sums short rows, and rows with short kernels, tap by tap, and convolves the others by spectra.
func (eng *Engine) GatedLongConv(g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	g.HeadDim = max(1, g.HeadDim)
	y := eng.like(g.V)
	eng.longConv(y, g, k, skip, r, func(int) bool { return true })
	return y
}

// longConv computes the rows of y for which use is true. The lengths of a row and of the kernels decide whether it is
// summed tap by tap, or transformed together with all rows that have the same plan.
func (eng *Engine) longConv(y *tensor.Tensor, g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows,
	use func(i int) bool) {
	direct := func(i int) bool { return min(r.Len(i), tapsOf(k)) <= directUpTo }
	eng.directConv(y, g, k, skip, r, func(i int) bool { return use(i) && direct(i) })
	record := eng.wants(g.Q, g.K, g.V, k, skip)
	byKey(eng, r, func(i int) transform {
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

// transform is the same for rows that are convolved with the same spectra of the kernels.
type transform struct{ points, taps int }

// transformOf returns the transform of a row of l positions, for kernels of the given number of taps. A row uses no
// more taps than it has positions, so that longer kernels, made for other rows, do not change its bits.
func transformOf(l, taps int) transform { return transform{kernel.NewConvPlan(l).N(), min(taps, l)} }

// convolution returns a convolution of all channels, still without rows, plan and states, for the operation of that
// name.
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

// over makes c convolve the given rows of r, which share a plan.
func (c *convolution) over(r *engine.Rows, rows []int) {
	for _, i := range rows {
		c.rows = append(c.rows, spanOf(r, i))
	}
	c.plan = kernel.NewConvPlan(c.longest())
}

// overPiece makes c convolve the positions [from, from+l) of the given rows of r, or fewer if a row ends before.
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
		eng.pushPart(op.name, op, op.y).add(op.after...)
	}
}

// Names of the operations that are convolutions.
const (
	longConv = "LongConv"
	diagSSM  = "DiagSSM"
)

// convolutionOp is a convolution with the name of its operation.
type convolutionOp struct {
	convolution
	name string
}
