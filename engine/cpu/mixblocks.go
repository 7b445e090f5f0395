package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// MixBlocks computes one product for each head and position in a block, which reads x and writes y in place.
func (eng *Engine) MixBlocks(x, w *tensor.Tensor, heads, block int) *tensor.Tensor {
	o := mixBlocksOp{x: x, w: w, y: eng.New(w.Rows()*block, x.Dim(-1)), heads: heads, block: block}
	o.each(func(h, at int, p kernel.Product) {
		p.Op, p.M, p.K = kernel.NN, w.Rows(), x.Rows()/block
		p.A, p.LDA = w.Data()[h*p.LDA:], w.Dim(-1)
		p.B, p.C = x.Data()[at:], o.y.Data()[at:]
		kernel.GemmInline(p)
	})
	record(eng, "MixBlocks", o, o.y, x, w)
	return o.y
}

type mixBlocksOp struct {
	x, w, y      *tensor.Tensor
	heads, block int
}

// each calls f for every head and position in a block, with the index of their first element in x and y, and a product.
// Its N, LDB and LDC are those of x and y, and its LDA is the number of weights of a head.
func (o *mixBlocksOp) each(f func(h, at int, p kernel.Product)) {
	d, e := o.x.Dim(-1), o.x.Dim(-1)/o.heads
	work := o.w.Rows() * o.x.Rows() / o.block * e
	parallel.For(o.heads*o.block, rowGrain(2*work), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			h, j := i/o.block, i%o.block
			f(h, j*d+h*e, kernel.Product{N: e, LDA: o.w.Dim(-1) / o.heads, LDB: o.block * d, LDC: o.block * d})
		}
	})
}

func (o *mixBlocksOp) Backward(eng *Engine) {
	dy, dx, dw := o.y.Grad(), eng.gradOf(o.x), eng.gradOf(o.w)
	m, blocks, width := o.w.Rows(), o.x.Rows()/o.block, o.w.Dim(-1)
	if dx != nil {
		o.each(func(h, at int, p kernel.Product) {
			p.Op, p.M, p.K, p.Add = kernel.TN, blocks, m, true
			p.A, p.LDA = o.w.Data()[h*p.LDA:], width
			p.B, p.C = dy[at:], dx[at:]
			kernel.GemmInline(p)
		})
	}
	if dw == nil {
		return
	}
	d, e, k := o.x.Dim(-1), o.x.Dim(-1)/o.heads, width/o.heads
	parallel.For(o.heads, rowGrain(2*m*blocks*e*o.block), func(lo, hi int) {
		for h := lo; h < hi; h++ {
			for j := range o.block {
				at := j*d + h*e
				kernel.GemmInline(kernel.Product{Op: kernel.NT, M: m, N: blocks, K: e, A: dy[at:], LDA: o.block * d,
					B: o.x.Data()[at:], LDB: o.block * d, C: dw[h*k:], LDC: width, Add: true})
			}
		}
	})
}
