package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// LinearLowRank adds the change to the product in place. It saves the values between the two matrices of the change for
// backward: the r numbers of a row are few compared with its k.
func (eng *Engine) LinearLowRank(x, w, bias *tensor.Tensor, c engine.LowRank, a engine.Activation) *tensor.Tensor {
	m, n, k, r := x.Rows(), w.Dim(0), w.Dim(1), c.Down.Dim(0)
	pre := eng.withLast(x, n)
	var b []float32
	if bias != nil {
		b = bias.Data()
	}
	eng.product(m, x.Data(), w, pre.Data(), b)
	mid := eng.arena.Floats(m * r)
	eng.precision().Gemm(kernel.Product{
		Op: kernel.NT, M: m, N: r, K: k, A: c.X.Data(), LDA: k, B: c.Down.Data(), LDB: k, C: mid, LDC: r,
	})
	eng.scale(mid, c.Scale)
	eng.precision().Gemm(kernel.Product{
		Op: kernel.NT, M: m, N: n, K: r, A: mid, LDA: r, B: c.Up.Data(), LDB: r, C: pre.Data(), LDC: n, Add: true,
	})
	record := eng.wants(x, w, bias, c.X, c.Down, c.Up)
	y := eng.activated(pre, a, record)
	if record {
		linear := linearOp{x: x, w: w, bias: bias, pre: pre, y: y, a: a}
		eng.push("LinearLowRank", save(eng, lowRankOp{linear, c, mid}), y)
	}
	return y
}

// scale multiplies x by a number.
func (eng *Engine) scale(x []float32, by float64) {
	if by == 1 {
		return
	}
	parallel.For(len(x), grain, func(lo, hi int) { kernel.Scale(x[lo:hi], float32(by)) })
}

type lowRankOp struct {
	linearOp
	c   engine.LowRank
	mid []float32 // scale·x' Downᵀ (m, r)
}

func (o *lowRankOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	o.linearOp.Backward(eng) // turns dy into the gradient before the activation
	m, n, k, r := o.x.Rows(), o.w.Dim(0), o.w.Dim(1), o.c.Down.Dim(0)
	p, c := eng.precision(), o.c
	dmid := eng.arena.Borrow(m * r)
	defer eng.done(dmid)
	p.Gemm(kernel.Product{
		Op: kernel.NN, M: m, N: r, K: n, A: dy, LDA: n, B: c.Up.Data(), LDB: r, C: dmid, LDC: r,
	})
	eng.scale(dmid, c.Scale)
	if dup := eng.gradOf(c.Up); dup != nil {
		p.Gemm(kernel.Product{
			Op: kernel.TN, M: n, N: r, K: m, A: dy, LDA: n, B: o.mid, LDB: r, C: dup, LDC: r, Add: true,
		})
	}
	if ddown := eng.gradOf(c.Down); ddown != nil {
		p.Gemm(kernel.Product{
			Op: kernel.TN, M: r, N: k, K: m, A: dmid, LDA: r, B: c.X.Data(), LDB: k, C: ddown, LDC: k, Add: true,
		})
	}
	if dx, add := eng.gradTo(c.X); dx != nil {
		p.Gemm(kernel.Product{
			Op: kernel.NN, M: m, N: k, K: r, A: dmid, LDA: r, B: c.Down.Data(), LDB: k, C: dx, LDC: k, Add: add,
		})
	}
}
