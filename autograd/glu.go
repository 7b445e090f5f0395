package autograd

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// GLU halves the last axis: y = a · sigmoid(g) for x = (a, g): x (…, 2d) → y (…, d). Dauphin et al., arXiv:1612.08083.
func (t *Tape) GLU(x *tensor.Tensor) *tensor.Tensor {
	d := x.Dim(-1) / 2
	if x.Dim(-1) != 2*d {
		shapePanic("GLU", x)
	}
	y := t.withLast(x, d)
	xd, yd := x.Data(), y.Data()
	parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			a, g, out := xd[2*r*d:][:d], xd[(2*r+1)*d:][:d], yd[r*d:][:d]
			for i := range out {
				out[i] = a[i] * kernel.Sigmoid(g[i])
			}
		}
	})
	if t.wants(x) {
		op := take[gluOp](t)
		*op = gluOp{x: x, y: y}
		t.push(op)
	}
	return y
}

type gluOp struct{ x, y *tensor.Tensor }

func (o *gluOp) Name() string                   { return "GLU" }
func (o *gluOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *gluOp) Backward(t *Tape) {
	dx, dy := t.gradOf(o.x), o.y.Grad()
	if dx == nil || dy == nil {
		return
	}
	d, x := o.y.Dim(-1), o.x.Data()
	parallel.For(o.y.Rows(), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			a, g, dout := x[2*r*d:][:d], x[(2*r+1)*d:][:d], dy[r*d:][:d]
			da, dg := dx[2*r*d:][:d], dx[(2*r+1)*d:][:d]
			for i, v := range dout {
				s := kernel.Sigmoid(g[i])
				da[i] += v * s
				dg[i] += v * a[i] * s * (1 - s)
			}
		}
	})
}
