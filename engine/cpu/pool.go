package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// MeanPositions is the mean over the first lengths[i] ≥ 1 positions of every sequence i, over all of them where lengths is nil:
// x (b, l, d) → y (b, 1, d). What follows those positions has no part in it, whatever it holds.
func (eng *Engine) oldMeanPositions(x *tensor.Tensor, lengths []int) *tensor.Tensor {
	b, l, d := x.Dim(0), x.Dim(1), x.Dim(2)
	y := eng.New(b, 1, d)
	y.Zero()
	op := take[meanPositionsOp](eng)
	*op = meanPositionsOp{x: x, y: y, lengths: append(op.lengths[:0], lengths...)}
	for i := range b {
		mean, n := y.Data()[i*d:][:d], op.length(i)
		sumRows(eng, mean, x.Data()[i*l*d:][:n*d], d)
		kernel.Scale(mean, 1/float32(n))
	}
	if eng.wants(x) {
		eng.push(op)
	}
	return y
}

type meanPositionsOp struct {
	x, y    *tensor.Tensor
	lengths []int // none: all
}

// length is the number of positions that count of sequence i.
func (o *meanPositionsOp) length(i int) int {
	if len(o.lengths) == 0 {
		return o.x.Dim(1)
	}
	return o.lengths[i]
}

func (o *meanPositionsOp) Name() string                   { return "MeanPositions" }
func (o *meanPositionsOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *meanPositionsOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil || dy == nil {
		return
	}
	l, d := o.x.Dim(1), o.x.Dim(2)
	for i := range o.x.Dim(0) {
		from, n := dy[i*d:][:d], o.length(i)
		kernel.Scale(from, 1/float32(n)) // it is needed no more
		to := dx[i*l*d:][:n*d]
		parallel.For(n, rowGrain(d), func(lo, hi int) {
			for r := lo; r < hi; r++ {
				kernel.Add(to[r*d:][:d], from)
			}
		})
	}
}

// PickPositions picks position at[i] of every sequence i: x (b, l, d) → y (b, 1, d).
func (eng *Engine) oldPickPositions(x *tensor.Tensor, at []int) *tensor.Tensor {
	b, l, d := x.Dim(0), x.Dim(1), x.Dim(2)
	y := eng.New(b, 1, d)
	for i, p := range at {
		copy(y.Data()[i*d:][:d], x.Data()[(i*l+p)*d:])
	}
	if eng.wants(x) {
		op := take[pickPositionsOp](eng)
		*op = pickPositionsOp{x: x, y: y, at: append(op.at[:0], at...)}
		eng.push(op)
	}
	return y
}

type pickPositionsOp struct {
	x, y *tensor.Tensor
	at   []int
}

func (o *pickPositionsOp) Name() string                   { return "PickPositions" }
func (o *pickPositionsOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *pickPositionsOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil || dy == nil {
		return
	}
	l, d := o.x.Dim(1), o.x.Dim(2)
	for i, p := range o.at {
		kernel.Add(dx[(i*l+p)*d:][:d], dy[i*d:])
	}
}

// FirstPositions keeps the first lengths[i] positions of every sequence i and sets all others to zero: x, y (b, l, d). What y holds
// does not depend on what x holds there, be it NaN.
func (eng *Engine) oldFirstPositions(x *tensor.Tensor, lengths []int) *tensor.Tensor {
	if lengths == nil {
		return x
	}
	y := eng.like(x)
	op := take[firstPositionsOp](eng)
	*op = firstPositionsOp{x: x, y: y, lengths: append(op.lengths[:0], lengths...)}
	yd, xd := y.Data(), x.Data()
	op.each(func(lo, end, hi int) {
		copy(yd[lo:end], xd[lo:])
		clear(yd[end:hi])
	})
	if eng.wants(x) {
		eng.push(op)
	}
	return y
}

type firstPositionsOp struct {
	x, y    *tensor.Tensor
	lengths []int
}

// each calls f on all cores for each sequence with where it begins, where its positions that count end, and where it ends.
func (o *firstPositionsOp) each(f func(lo, end, hi int)) {
	l, d := o.x.Dim(1), o.x.Dim(2)
	parallel.For(len(o.lengths), max(1, grain/(l*d)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i*l*d, (i*l+o.lengths[i])*d, (i+1)*l*d)
		}
	})
}

func (o *firstPositionsOp) Name() string                   { return "FirstPositions" }
func (o *firstPositionsOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *firstPositionsOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil || dy == nil {
		return
	}
	o.each(func(lo, end, _ int) { kernel.Add(dx[lo:end], dy[lo:end]) })
}
