package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The kernels of h convolutions have two layouts. Kernels that are made by products are rows of taps, (l, h). Kernels
// that systems generate are lanes, (⌈h/16⌉, l, 16): the kernels of 16 heads, which one transform takes, lie together.
// The last lanes are zeros unless h is a multiple of 16.

// newKernels returns space for kernels in lanes.
func (eng *Engine) newKernels(h, l int) *tensor.Tensor { return eng.New((h+lanes-1)/lanes, l, lanes) }

// KernelTaps returns the length of h kernels in either layout, or 0 if k does not hold h kernels.
func (eng *Engine) KernelTaps(k *tensor.Tensor, h int) int {
	if k.Dims() == 3 && k.Dim(0) == (h+lanes-1)/lanes && k.Dim(2) == lanes || k.Dims() == 2 && k.Dim(1) == h {
		return tapsOf(k)
	}
	return 0
}

// tapsOf returns the length of kernels.
func tapsOf(k *tensor.Tensor) int { return k.Dim(-2) }

// tapRows returns the taps in x, which has the shape of the kernels k, of up to 16 heads from head on, a multiple of
// 16.
func tapRows(x []float32, k *tensor.Tensor, head int) kernel.Rows {
	if k.Dims() == 3 {
		return kernel.Rows{X: x[head*tapsOf(k):], Step: lanes}
	}
	return kernel.Rows{X: x[head:], Step: k.Dim(1)}
}

// KernelRows copies kernels in lanes to rows, and returns rows as they are.
func (eng *Engine) KernelRows(k *tensor.Tensor, h int) *tensor.Tensor {
	if k.Dims() == 2 {
		return k
	}
	y := eng.New(tapsOf(k), h)
	fromLanes(y.Data(), k.Data(), tapsOf(k), h)
	record(eng, "KernelRows", kernelRowsOp{k: k, y: y}, y, k)
	return y
}

type kernelRowsOp struct{ k, y *tensor.Tensor }

func (o *kernelRowsOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	dk := eng.gradOf(o.k)
	eachLanes(dk, dy, tapsOf(o.k), o.y.Dim(1), func(dk, rows kernel.Rows, l, width int) {
		kernel.MulAddRows(dk, dk, rows, kernel.Ones(), l, width)
	})
}

// toLanes sets y (⌈h/16⌉, l, 16) to the kernels in rows (l, h).
func toLanes(y, rows []float32, l, h int) {
	eachLanes(y, rows, l, h, func(y, rows kernel.Rows, l, width int) {
		if width < lanes {
			clear(y.X[:l*lanes])
		}
		kernel.MulRows(y, rows, kernel.Ones(), l, width)
	})
}

// fromLanes sets rows (l, h) to the kernels in x (⌈h/16⌉, l, 16).
func fromLanes(rows, x []float32, l, h int) {
	eachLanes(x, rows, l, h, func(x, rows kernel.Rows, l, width int) {
		kernel.MulRows(rows, x, kernel.Ones(), l, width)
	})
}

// eachLanes calls f on all cores for each 16 of h kernels of length l: in x (⌈h/16⌉, l, 16) and in rows (l, h). width
// is the number of kernels among them, fewer than 16 at the end.
func eachLanes(x, rows []float32, l, h int, f func(x, rows kernel.Rows, l, width int)) {
	parallel.For((h+lanes-1)/lanes, rowGrain(l*lanes), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(kernel.Rows{X: x[i*l*lanes:], Step: lanes}, kernel.Rows{X: rows[i*lanes:], Step: h}, l,
				min(lanes, h-i*lanes))
		}
	})
}
