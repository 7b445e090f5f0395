package autograd

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The kernels of h convolutions are rows of taps, (l, h), where products make them. Where systems generate them they lie in tiles,
// (⌈h/16⌉, l, 16): those of 16 heads side by side, which are what one transform takes, in one piece of memory. Behind the last
// head are zeros.

// newKernels is room for kernels in tiles.
func (t *Tape) newKernels(h, l int) *tensor.Tensor { return t.New((h+lanes-1)/lanes, l, lanes) }

// areKernels tells whether k has the shape of h kernels.
func areKernels(k *tensor.Tensor, h int) bool {
	if k.Dims() == 3 {
		return k.Dim(0) == (h+lanes-1)/lanes && k.Dim(2) == lanes
	}
	return k.Dims() == 2 && k.Dim(1) == h
}

// tapsOf is the length of kernels.
func tapsOf(k *tensor.Tensor) int { return k.Dim(-2) }

// tapRows are the taps in x, of the shape of the kernels k, of up to 16 heads from head on, a multiple of 16.
func tapRows(x []float32, k *tensor.Tensor, head int) kernel.Rows {
	if k.Dims() == 3 {
		return kernel.Rows{X: x[head*tapsOf(k):], Step: lanes}
	}
	return kernel.Rows{X: x[head:], Step: k.Dim(1)}
}

// KernelRows gives h kernels k as rows (l, h), which they may be already.
func (t *Tape) KernelRows(k *tensor.Tensor, h int) *tensor.Tensor {
	if !areKernels(k, h) {
		shapePanic("KernelRows", k)
	}
	if k.Dims() == 2 {
		return k
	}
	y := t.New(tapsOf(k), h)
	fromTiles(y.Data(), k.Data(), tapsOf(k), h)
	if t.wants(k) {
		op := take[kernelRowsOp](t)
		*op = kernelRowsOp{k: k, y: y}
		t.push(op)
	}
	return y
}

type kernelRowsOp struct{ k, y *tensor.Tensor }

func (o *kernelRowsOp) Name() string                   { return "KernelRows" }
func (o *kernelRowsOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *kernelRowsOp) Backward(t *Tape) {
	dy := o.y.Grad()
	if dy == nil {
		return
	}
	dk := t.gradOf(o.k)
	eachTile(dk, dy, tapsOf(o.k), o.y.Dim(1), func(tile, rows kernel.Rows, l, width int) {
		kernel.MulAddRows(tile, tile, rows, kernel.Ones(), l, width)
	})
}

// toTiles sets tiles to the kernels in rows (l, h).
func toTiles(tiles, rows []float32, l, h int) {
	eachTile(tiles, rows, l, h, func(tile, rows kernel.Rows, l, width int) {
		if width < lanes {
			clear(tile.X[:l*lanes])
		}
		kernel.MulRows(tile, rows, kernel.Ones(), l, width)
	})
}

// fromTiles sets rows (l, h) to the kernels in tiles.
func fromTiles(rows, tiles []float32, l, h int) {
	eachTile(tiles, rows, l, h, func(tile, rows kernel.Rows, l, width int) {
		kernel.MulRows(rows, tile, kernel.Ones(), l, width)
	})
}

// eachTile calls f for the tiles of h kernels of length l and the columns of rows (l, h) that belong to them, on all cores.
func eachTile(tiles, rows []float32, l, h int, f func(tile, rows kernel.Rows, l, width int)) {
	parallel.For((h+lanes-1)/lanes, rowGrain(l*lanes), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(kernel.Rows{X: tiles[i*l*lanes:], Step: lanes}, kernel.Rows{X: rows[i*lanes:], Step: h}, l, min(lanes, h-i*lanes))
		}
	})
}
