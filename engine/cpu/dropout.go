package cpu

import (
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Dropout sets each element to zero with probability p and multiplies the others by 1/(1-p). It is the identity when the
// tape does not train or p is 0. The mask is a function of one seed drawn from the tape's generator, so it is not stored.
func (eng *Engine) oldDropout(x *tensor.Tensor, p float64, seed uint64) *tensor.Tensor {
	y := eng.like(x)
	m := newMask(p, seed)
	xd, yd := x.Data(), y.Data()
	parallel.For(len(xd), grain, func(lo, hi int) {
		clear(yd[lo:hi])
		m.addTo(yd, xd, lo, hi)
	})
	if eng.wants(x) {
		op := take[dropoutOp](eng)
		*op = dropoutOp{x: x, y: y, mask: m}
		eng.push(op)
	}
	return y
}

// mask is a dropout mask, or none where its scale is 0.
type mask struct {
	seed      uint64
	threshold uint32
	scale     float32
}

func newMask(p float64, seed uint64) mask {
	return mask{seed: seed, threshold: counter.KeepThreshold(p), scale: float32(1 / (1 - p))}
}

// addTo adds the masked x to y on [lo, hi).
func (m mask) addTo(y, x []float32, lo, hi int) {
	kernel.DropAdd(y[lo:hi], x[lo:hi], m.seed, lo, m.threshold, m.scale)
}

type dropoutOp struct {
	x, y *tensor.Tensor
	mask mask
}

func (o *dropoutOp) Name() string                   { return "Dropout" }
func (o *dropoutOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *dropoutOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil || dy == nil {
		return
	}
	parallel.For(len(dy), grain, func(lo, hi int) { o.mask.addTo(dx, dy, lo, hi) })
}
