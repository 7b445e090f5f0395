package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// BlockLinear computes y = a(x W + bias) with one product for each block, which reads x and writes y in place.
func (eng *Engine) BlockLinear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	o := blockLinearOp{x: x, w: w, bias: bias, a: a, pre: eng.withLast(x, w.Dim(0)*w.Dim(2))}
	k, n := w.Dim(1), w.Dim(2)
	for e := range w.Dim(0) {
		eng.precision().Gemm(kernel.Product{
			Op: kernel.NN, M: x.Rows(), N: n, K: k, A: x.Data()[e*k:], LDA: x.Dim(-1), B: w.Data()[e*k*n:], LDB: n,
			C: o.pre.Data()[e*n:], LDC: o.pre.Dim(-1), Bias: bias.Data()[e*n:][:n],
		})
	}
	record := eng.wants(x, w, bias)
	o.y = eng.activated(o.pre, a, record)
	if record {
		eng.push("BlockLinear", save(eng, o), o.y)
	}
	return o.y
}

type blockLinearOp struct {
	x, w, bias, pre, y *tensor.Tensor
	a                  engine.Activation
}

func (o *blockLinearOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	activateGrad(o.a, dy, o.pre.Data())
	rows, k, n, in, out := o.x.Rows(), o.w.Dim(1), o.w.Dim(2), o.x.Dim(-1), o.y.Dim(-1)
	dx, add := eng.gradTo(o.x)
	dw := eng.gradOf(o.w)
	for e := range o.w.Dim(0) {
		if dx != nil {
			eng.precision().Gemm(kernel.Product{
				Op: kernel.NT, M: rows, N: k, K: n, A: dy[e*n:], LDA: out, B: o.w.Data()[e*k*n:], LDB: n,
				C: dx[e*k:], LDC: in, Add: add,
			})
		}
		if dw != nil {
			eng.precision().Gemm(kernel.Product{
				Op: kernel.TN, M: k, N: n, K: rows, A: o.x.Data()[e*k:], LDA: in, B: dy[e*n:], LDB: out,
				C: dw[e*k*n:], LDC: n, Add: true,
			})
		}
	}
	if db := eng.gradOf(o.bias); db != nil {
		sumRows(eng, db, dy, out)
	}
}
