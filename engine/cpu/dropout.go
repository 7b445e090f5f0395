package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Dropout does not store masks: backward computes them again.
func (eng *Engine) Dropout(x *tensor.Tensor, p float64, r *engine.Rows, op uint64) *tensor.Tensor {
	o := take[dropoutOp](eng)
	*o = dropoutOp{x: x, y: eng.like(x), rows: r, p: p, number: op}
	xd, yd, d := x.Data(), o.y.Data(), x.Dim(-1)
	overRows(r, rowGrain(d), func(i, lo, hi int) {
		clear(yd[(r.From(i)+lo)*d : (r.From(i)+hi)*d])
		o.addTo(yd, xd, i, lo, hi)
	})
	if eng.wants(x) {
		eng.push("Dropout", o, o.y)
	}
	return o.y
}

// mask is a dropout mask; one with scale 0 drops nothing.
type mask struct {
	seed      uint64
	threshold uint32
	scale     float32
}

func newMask(p float64, seed uint64) mask {
	return mask{seed: seed, threshold: counter.KeepThreshold(p), scale: float32(1 / (1 - p))}
}

type dropoutOp struct {
	x, y   *tensor.Tensor
	rows   *engine.Rows
	p      float64
	number uint64 // number of the dropout
}

// addTo adds the kept elements of the positions [lo, hi) of row i in x, scaled, to y.
func (o *dropoutOp) addTo(y, x []float32, i, lo, hi int) {
	d, m := o.x.Dim(-1), newMask(o.p, o.rows.Seed(i, o.number))
	at, end := (o.rows.From(i)+lo)*d, (o.rows.From(i)+hi)*d
	kernel.DropAdd(y[at:end], x[at:end], m.seed, lo*d, m.threshold, m.scale)
}

func (o *dropoutOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil {
		return
	}
	overRows(o.rows, rowGrain(o.x.Dim(-1)), func(i, lo, hi int) { o.addTo(dx, dy, i, lo, hi) })
}
