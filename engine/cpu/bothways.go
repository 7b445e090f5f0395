package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// BothWays is LongConv with a kernel that also looks ahead, in the time of one:
//
//	y[t, c] = Σ_{j≤t} k[j, c]·u[t-j, c] + Σ_j ahead[j, c]·u[t+1+j, c] + D[c]·u[t, c]
//
// with u (n, d), rows of at most engine.LongestAtOnce positions, the kernels k and ahead as LongConv takes them, and D
// (d) or nil for zero.
func (eng *Engine) BothWays(u, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	y, record := eng.like(u), eng.wants(u, k, ahead, skip)
	taps := max(tapsOf(k), tapsOf(ahead)+1)
	groups(eng, r, func(i int) transform { return transformOf(r.Len(i), taps) }, func(rows []int, of transform) {
		c := eng.convolution(longConv, y, engine.Gates{V: u, HeadDim: 1}, k, skip)
		c.over(r, rows)
		c.ahead, c.taps, c.tapsAhead = ahead, min(tapsOf(k), of.taps), min(tapsOf(ahead), of.taps-1)
		eng.convolve(c, record)
	})
	return y
}

// beginKernel makes the spectrum of the kernels, with what looks ahead. It uses scratch.
func (w *tile) beginKernel(scratch kernel.Spectrum) {
	c := w.c
	c.plan.Begin(w.kernel, (*kernelRows)(w), c.taps)
	if c.ahead != nil {
		c.plan.Begin(scratch, (*aheadRows)(w), c.plan.N())
		c.plan.AddAhead(w.kernel, scratch)
	}
}

// aheadRows are the kernels that look ahead, turned round so that their first row is the last point of the transform.
type aheadRows tile

// each calls f for those of the n rows from t on that are one of the first taps: row i is in the tile's channels of x,
// of the shape of the kernels.
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

// aheadGradRows takes the gradients of the kernels that look ahead, turned round in the same way.
type aheadGradRows tile

func (w *aheadGradRows) Rows() (kernel.Rows, kernel.Placing) { return kernel.Rows{}, kernel.ByPut }

func (w *aheadGradRows) Put(da, _ []float32, t, n int) {
	(*aheadRows)(w).each(w.c.grads.ahead, t, n, w.c.tapsAhead, func(i int, row []float32) {
		kernel.Add(row, da[i*lanes:])
	})
}
