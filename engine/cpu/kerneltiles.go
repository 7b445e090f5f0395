package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The kernels of h convolutions are rows of taps, (l, h), where products make them. Where systems generate them they
// lie in tiles, (⌈h/16⌉, l, 16): those of 16 heads side by side, which are what one transform takes, in one piece of
// memory. Behind the last head are zeros.

// newKernels is room for kernels in tiles.
func (eng *Engine) newKernels(h, l int) *tensor.Tensor { return eng.New((h+lanes-1)/lanes, l, lanes) }

// KernelTaps is the length of h kernels, 0 if k does not have the shape of that many.
func (eng *Engine) KernelTaps(k *tensor.Tensor, h int) int {
	if k.Dims() == 3 && k.Dim(0) == (h+lanes-1)/lanes && k.Dim(2) == lanes || k.Dims() == 2 && k.Dim(1) == h {
		return tapsOf(k)
	}
	return 0
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
func (eng *Engine) KernelRows(k *tensor.Tensor, h int) *tensor.Tensor {
	if k.Dims() == 2 {
		return k
	}
	y := eng.New(tapsOf(k), h)
	fromTiles(y.Data(), k.Data(), tapsOf(k), h)
	if eng.wants(k) {
		op := take[kernelRowsOp](eng)
		*op = kernelRowsOp{k: k, y: y}
		eng.push(op)
	}
	return y
}

type kernelRowsOp struct{ k, y *tensor.Tensor }

func (o *kernelRowsOp) Name() string                   { return "KernelRows" }
func (o *kernelRowsOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *kernelRowsOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	if dy == nil {
		return
	}
	dk := eng.gradOf(o.k)
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

// eachTile calls f for the tiles of h kernels of length l and the columns of rows (l, h) that belong to them, on all
// cores.
func eachTile(tiles, rows []float32, l, h int, f func(tile, rows kernel.Rows, l, width int)) {
	parallel.For((h+lanes-1)/lanes, rowGrain(l*lanes), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(kernel.Rows{X: tiles[i*l*lanes:], Step: lanes}, kernel.Rows{X: rows[i*lanes:], Step: h}, l,
				min(lanes, h-i*lanes))
		}
	})
}
