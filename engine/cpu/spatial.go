package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// SpatialMix is the causal projection along the sequence of gMLP's gate (arXiv:2105.08050), of the last l of the positions that
// x (b, p+l, d) has, the first of which is position start of its sequence, x.Start:
//
//	y[i] = Σ_{j≤i} W[i, j]·x[j] + bias[i]
//
// with W (L, L) and bias (L), start + p + l ≤ L: y (b, l, d). What W has above its diagonal counts for nothing.
func (eng *Engine) SpatialMix(x engine.RowCache, w, bias *tensor.Tensor, l int) *tensor.Tensor {
	b, d, n := x.X.Dim(0), x.X.Dim(2), bias.Len()
	y := eng.New(b, l, d)
	op := spatialOp{x: x.X, w: w, bias: bias, y: y, start: x.Start, past: x.Len - l, n: n, precision: eng.precision()}
	parallel.For(b*op.blocks(), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			op.forward(i/op.blocks(), i%op.blocks()*spatialRows)
		}
	})
	if eng.wants(x.X, w, bias) {
		o := take[spatialOp](eng)
		*o = op
		eng.push(o)
	}
	return y
}

// spatialRows is how many rows of W are taken at a time.
const spatialRows = 64

type spatialOp struct {
	x, w, bias, y *tensor.Tensor
	start, n      int
	past          int // rows of x before the outputs
	precision     kernel.Precision
}

func (o *spatialOp) blocks() int { return (o.y.Dim(1) + spatialRows - 1) / spatialRows }

// rows copies the rows of W for the outputs [at, at+m), as far as they reach, and clears what is above the diagonal: (m, cols).
func (o *spatialOp) rows(buf []float32, at, m int) (cols int) {
	cols = o.past + at + m
	for r := range m {
		seen := o.past + at + r + 1
		row := o.w.Data()[(o.start+o.past+at+r)*o.n+o.start:]
		copy(buf[r*cols:][:seen], row)
		clear(buf[r*cols+seen : (r+1)*cols])
	}
	return cols
}

func (o *spatialOp) forward(b, at int) {
	l, d := o.y.Dim(1), o.x.Dim(2)
	m := min(spatialRows, l-at)
	buf := getFloats(m * (o.past + l))
	defer putFloats(buf)
	cols := o.rows(*buf, at, m)
	y := o.y.Data()[(b*l+at)*d:][:m*d]
	for r := range m {
		bias := o.bias.Data()[o.start+o.past+at+r]
		for i := range d {
			y[r*d+i] = bias
		}
	}
	o.precision.GemmInline(kernel.Product{
		Op: kernel.NN, M: m, N: d, K: cols, A: *buf, LDA: cols, B: o.x.Data()[b*o.x.Dim(1)*d:], LDB: d,
		C: y, LDC: d, Add: true,
	})
}

func (o *spatialOp) Name() string                   { return "SpatialMix" }
func (o *spatialOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }

// Backward shares the rows of W between cores, each for all sequences, then the sequences.
func (o *spatialOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	if dy == nil {
		return
	}
	b, l, all, d := o.x.Dim(0), o.y.Dim(1), o.x.Dim(1), o.x.Dim(2)
	dx, dw, dBias := eng.gradOf(o.x), eng.gradOf(o.w), eng.gradOf(o.bias)
	parallel.For(o.blocks(), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			at := i * spatialRows
			m := min(spatialRows, l-at)
			if dw != nil {
				o.rowGrads(dw, dy, at, m)
			}
			for r := at; dBias != nil && r < at+m; r++ {
				for s := range b {
					for _, v := range dy[(s*l+r)*d:][:d] {
						dBias[o.start+o.past+r] += v
					}
				}
			}
		}
	})
	if dx == nil {
		return
	}
	parallel.For(b, 1, func(lo, hi int) {
		for s := lo; s < hi; s++ {
			for at := 0; at < l; at += spatialRows {
				m := min(spatialRows, l-at)
				buf := getFloats(m * all)
				cols := o.rows(*buf, at, m)
				o.precision.GemmInline(kernel.Product{
					Op: kernel.TN, M: cols, N: d, K: m, A: *buf, LDA: cols, B: dy[(s*l+at)*d:], LDB: d,
					C: dx[s*all*d:], LDC: d, Add: true,
				})
				putFloats(buf)
			}
		}
	})
}

// rowGrads adds to the gradients of the rows of W for the outputs [at, at+m).
func (o *spatialOp) rowGrads(dw, dy []float32, at, m int) {
	b, l, all, d := o.x.Dim(0), o.y.Dim(1), o.x.Dim(1), o.x.Dim(2)
	cols := o.past + at + m
	buf := getFloats(m * cols)
	defer putFloats(buf)
	clear(*buf)
	for s := range b {
		o.precision.GemmInline(kernel.Product{
			Op: kernel.NT, M: m, N: cols, K: d, A: dy[(s*l+at)*d:], LDA: d, B: o.x.Data()[s*all*d:], LDB: d,
			C: *buf, LDC: cols, Add: true,
		})
	}
	for r := range m {
		seen := o.past + at + r + 1
		kernel.Add(dw[(o.start+o.past+at+r)*o.n+o.start:][:seen], (*buf)[r*cols:][:seen])
	}
}
