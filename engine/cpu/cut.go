package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Cut copies in tasks, which may be parts of a row.
func (eng *Engine) Cut(x *tensor.Tensor, r *engine.Rows, at, n []int) *tensor.Tensor {
	o := take[cutOp](eng)
	*o = cutOp{x: x, from: o.from[:0], parts: o.parts}
	o.parts.Clear()
	for i, l := range n {
		o.from = append(o.from, r.From(i)+at[i])
		o.parts.Add(l, 0)
	}
	o.y = eng.New(o.parts.Total(), x.Dim(-1))
	o.each(o.y.Data(), x.Data(), func(y, x []float32) { copy(y, x) })
	if eng.wants(x) {
		eng.push("Cut", o, o.y)
	}
	return o.y
}

type cutOp struct {
	x, y  *tensor.Tensor
	from  []int       // where each part starts in x, in positions
	parts engine.Rows // of y
}

// each calls f on all cores for parts of y, with the same parts of x.
func (o *cutOp) each(y, x []float32, f func(y, x []float32)) {
	d := o.x.Dim(-1)
	overRows(&o.parts, rowGrain(d), func(i, lo, hi int) {
		f(y[(o.parts.From(i)+lo)*d:(o.parts.From(i)+hi)*d], x[(o.from[i]+lo)*d:(o.from[i]+hi)*d])
	})
}

func (o *cutOp) Backward(eng *Engine) {
	if dx := eng.gradOf(o.x); dx != nil {
		o.each(o.y.Grad(), dx, func(dy, dx []float32) { kernel.Add(dx, dy) })
	}
}

// Slice copies one run of memory.
func (eng *Engine) Slice(x *tensor.Tensor, at, n int) *tensor.Tensor {
	o := take[sliceOp](eng)
	*o = sliceOp{x: x, y: eng.New(n, x.Dim(-1)), at: at * x.Dim(-1)}
	from := x.Data()[o.at:]
	parallel.For(o.y.Len(), grain, func(lo, hi int) { copy(o.y.Data()[lo:hi], from[lo:]) })
	if eng.wants(x) {
		eng.push("Slice", o, o.y)
	}
	return o.y
}

type sliceOp struct {
	x, y *tensor.Tensor
	at   int // in elements
}

func (o *sliceOp) Backward(eng *Engine) {
	if dx, dy := eng.gradOf(o.x), o.y.Grad(); dx != nil {
		parallel.For(len(dy), grain, func(lo, hi int) { kernel.Add(dx[o.at+lo:o.at+hi], dy[lo:hi]) })
	}
}
