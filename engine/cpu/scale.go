package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Scale computes y = c·x element by element.
func (eng *Engine) Scale(x *tensor.Tensor, c float64) *tensor.Tensor {
	y := eng.like(x)
	xd, yd := x.Data(), y.Data()
	parallel.For(len(xd), grain, func(lo, hi int) {
		copy(yd[lo:hi], xd[lo:hi])
		kernel.Scale(yd[lo:hi], float32(c))
	})
	record(eng, "Scale", scaleOp{x: x, y: y, c: float32(c)}, y, x)
	return y
}

type scaleOp struct {
	x, y *tensor.Tensor
	c    float32
}

func (o *scaleOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil {
		return
	}
	parallel.For(len(dy), grain, func(lo, hi int) { kernel.Axpy(o.c, dy[lo:hi], dx[lo:hi]) })
}

// Clamp computes y = min(max(x, lo), hi) element by element.
func (eng *Engine) Clamp(x *tensor.Tensor, lo, hi float64) *tensor.Tensor {
	y := eng.like(x)
	op := clampOp{x: x, y: y, lo: float32(lo), hi: float32(hi)}
	xd, yd := x.Data(), y.Data()
	parallel.For(len(xd), grain, func(from, to int) {
		for i, v := range xd[from:to] {
			yd[from+i] = min(max(v, op.lo), op.hi)
		}
	})
	record(eng, "Clamp", op, y, x)
	return y
}

type clampOp struct {
	x, y   *tensor.Tensor
	lo, hi float32
}

func (o *clampOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil {
		return
	}
	xd := o.x.Data()
	parallel.For(len(dy), grain, func(lo, hi int) {
		for i, v := range xd[lo:hi] {
			if v >= o.lo && v <= o.hi {
				dx[lo+i] += dy[lo+i]
			}
		}
	})
}
