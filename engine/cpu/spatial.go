package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// SpatialMix multiplies 64 rows of W at a time with the positions that they see.
func (eng *Engine) SpatialMix(x, w, bias *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) *tensor.Tensor {
	op := take[spatialOp](eng)
	*op = spatialOp{x: eng.see(op.x, x, r, caches), w: w, bias: bias, y: eng.like(x), rows: r, n: bias.Len(),
		precision: eng.precision()}
	overPieces(r, spatialRows, 1, op.forward)
	op.x.release()
	record := eng.wants(w, bias)
	if op.x.wants(eng) || record {
		eng.push("SpatialMix", op, op.y)
	}
	return op.y
}

// spatialRows is the number of positions of a product: rows of W here, and queries in SquaredReLUAttention. Their
// weights over all positions that they see stay in the processor's cache.
const spatialRows = 64

type spatialOp struct {
	x          seen
	w, bias, y *tensor.Tensor
	rows       *engine.Rows
	n          int
	precision  kernel.Precision
}

// first returns the first position that row i sees, counted in its sequence.
func (o *spatialOp) first(i int) int { return o.rows.Start(i) - o.x.past(i) }

// weights copies the rows of W for the positions [lo, hi) of row i, with zeros above the diagonal: (hi-lo, columns).
func (o *spatialOp) weights(buf []float32, i, lo, hi int) (columns int) {
	past, first := o.x.past(i), o.first(i)
	columns = past + hi
	for t := lo; t < hi; t++ {
		sees, row := past+t+1, buf[(t-lo)*columns:][:columns]
		copy(row[:sees], o.w.Data()[(first+past+t)*o.n+first:])
		clear(row[sees:])
	}
	return columns
}

func (o *spatialOp) forward(i, lo, hi int) {
	d := o.y.Dim(-1)
	buf := getFloats((hi - lo) * (o.x.past(i) + hi))
	defer putFloats(buf)
	columns := o.weights(*buf, i, lo, hi)
	y := rowOf(o.y.Data(), o.rows, i)[lo*d : hi*d]
	for t := range hi - lo {
		bias := o.bias.Data()[o.rows.Start(i)+lo+t]
		for c := range d {
			y[t*d+c] = bias
		}
	}
	for p := 0; p < columns; {
		x, n := o.x.run(i, p)
		n = min(n, columns-p)
		o.precision.GemmInline(kernel.Product{Op: kernel.NN, M: hi - lo, N: d, K: n, A: (*buf)[p:], LDA: columns,
			B: x, LDB: d, C: y, LDC: d, Add: true})
		p += n
	}
}

// Backward distributes the rows of W over the cores for dW, and then the rows of positions for dx.
func (o *spatialOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	r, d := o.rows, o.y.Dim(-1)
	dw, dBias := eng.gradOf(o.w), eng.gradOf(o.bias)
	from, to := o.n, 0 // range of rows of W that positions use
	for i := range r.Count() {
		from, to = min(from, r.Start(i)), max(to, r.Start(i)+r.Len(i))
	}
	from /= spatialRows
	parallel.For((to+spatialRows-1)/spatialRows-from, 1, func(b0, b1 int) {
		for b := from + b0; b < from+b1; b++ {
			o.rowGrads(dw, dBias, dy, b*spatialRows, min((b+1)*spatialRows, to))
		}
	})
	dx := o.x.grads(eng)
	parallel.For(r.Count(), 1, func(r0, r1 int) {
		for i := r0; i < r1; i++ {
			if dx[i] == nil {
				continue
			}
			dy := rowOf(dy, r, i)
			for lo := 0; lo < r.Len(i); lo += spatialRows {
				hi := min(lo+spatialRows, r.Len(i))
				buf := getFloats((hi - lo) * (o.x.past(i) + hi))
				columns := o.weights(*buf, i, lo, hi)
				o.precision.GemmInline(kernel.Product{Op: kernel.TN, M: columns, N: d, K: hi - lo,
					A: *buf, LDA: columns, B: dy[lo*d:], LDB: d, C: dx[i], LDC: d, Add: true})
				putFloats(buf)
			}
		}
	})
}

// rowGrads adds to the gradients of the rows [lo, hi) of W and of bias, each nil if it is not wanted.
func (o *spatialOp) rowGrads(dw, dBias, dy []float32, lo, hi int) {
	r, d := o.rows, o.y.Dim(-1)
	buf := getFloats((hi - lo) * hi)
	defer putFloats(buf)
	sum := *buf // the gradient of the rows of W, up to the last column that any of them uses
	clear(sum)
	for i := range r.Count() {
		start, first := r.Start(i), o.first(i)
		a, b := max(lo, start), min(hi, start+r.Len(i))
		if a >= b {
			continue
		}
		dy := rowOf(dy, r, i)[(a-start)*d : (b-start)*d]
		if dw != nil {
			x, _ := o.x.run(i, 0)
			o.precision.GemmInline(kernel.Product{Op: kernel.NT, M: b - a, N: b - first, K: d, A: dy, LDA: d,
				B: x, LDB: d, C: sum[(a-lo)*hi+first:], LDC: hi, Add: true})
		}
		for t := 0; dBias != nil && t < b-a; t++ {
			for _, g := range dy[t*d:][:d] {
				dBias[a+t] += g
			}
		}
	}
	for t := lo; dw != nil && t < hi; t++ {
		kernel.Add(dw[t*o.n:][:t+1], sum[(t-lo)*hi:][:t+1])
	}
}
