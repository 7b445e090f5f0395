package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// BothWays computes one spectrum of both kernels: the kernel that looks ahead is reversed, at the end of the transform.
// So it takes the time of one convolution.
func (eng *Engine) BothWays(u, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	y, record := eng.like(u), eng.wants(u, k, ahead, skip)
	taps := max(tapsOf(k), tapsOf(ahead)+1)
	byKey(eng, r, func(i int) transform { return transformOf(r.Len(i), taps) }, func(rows []int, of transform) {
		c := eng.convolution(longConv, y, engine.Gates{V: u, HeadDim: 1}, k, skip)
		c.over(r, rows)
		c.ahead, c.taps, c.tapsAhead = ahead, min(tapsOf(k), of.taps), min(tapsOf(ahead), of.taps-1)
		eng.convolve(c, record)
	})
	return y
}

// beginKernel computes the spectrum of the kernels, including those that look ahead. It overwrites scratch.
func (w *convLanes) beginKernel(scratch kernel.Spectrum) {
	c := w.c
	c.plan.Begin(w.kernel, (*kernelRows)(w), c.taps)
	if c.ahead != nil {
		c.plan.Begin(scratch, (*aheadRows)(w), c.plan.N())
		c.plan.AddAhead(w.kernel, scratch)
	}
}

// aheadRows are the kernels that look ahead, reversed so that their first tap is the last point of the transform.
type aheadRows convLanes

// each calls f for each of the n points from t on at which one of the first taps lies. row is that tap of the channels
// in x, which has the shape of the kernels.
func (w *aheadRows) each(x []float32, t, n, taps int, f func(i int, row []float32)) {
	rows := tapRows(x, w.c.ahead, w.head)
	first := w.c.plan.N() - 1 - t
	for i := max(0, first+1-taps); i < n; i++ {
		f(i, rows.X[(first-i)*rows.Step:][:w.width])
	}
}

func (w *aheadRows) Rows() (kernel.Rows, bool) { return kernel.Rows{}, false }

func (w *aheadRows) Fill(z []float32, t, n int) {
	clear(z)
	w.each(w.c.ahead.Data(), t, n, w.c.tapsAhead, func(i int, row []float32) { copy(z[i*lanes:], row) })
}

// aheadGradRows receives the gradients of the kernels that look ahead, reversed in the same way.
type aheadGradRows convLanes

func (w *aheadGradRows) Rows() (kernel.Rows, kernel.Placing) { return kernel.Rows{}, kernel.ByPut }

func (w *aheadGradRows) Put(da, _ []float32, t, n int) {
	(*aheadRows)(w).each(w.c.grads.ahead, t, n, w.c.tapsAhead, func(i int, row []float32) {
		kernel.Add(row, da[i*lanes:])
	})
}
