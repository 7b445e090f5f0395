package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// SquaredReLUAttention is the attention of the gated attention unit (arXiv:2202.10447, §3.1), causal: position i, one of the last l
// of those that the keys k (b, p+l, s) and the values v (b, p+l, e) have, with its query q (b, l, s), sees positions j ≤ i:
//
//	y[i] = Σ_j relu( q[i]·k[j]/√s + bias[min(i-j, m-1)] )² v[j] / (i+1)
//
// with the bias (m) of a distance, y (b, l, e). The mean over what is seen stands for the paper's division by the length.
func (eng *Engine) SquaredReLUAttention(q *tensor.Tensor, keys, values engine.RowCache, bias *tensor.Tensor) *tensor.Tensor {
	b, l, k, v := q.Dim(0), q.Dim(1), keys.X, values.X
	y := eng.New(b, l, v.Dim(2))
	op := reluAttentionOp{q: q, k: k, v: v, bias: bias, y: y, past: keys.Len - l, precision: eng.precision()}
	blocks := (l + spatialRows - 1) / spatialRows
	parallel.For(b*blocks, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			op.forward(i/blocks, i%blocks*spatialRows)
		}
	})
	if eng.wants(q, k, v, bias) {
		o := take[reluAttentionOp](eng)
		*o = op
		eng.push(o)
	}
	return y
}

type reluAttentionOp struct {
	q, k, v, bias, y *tensor.Tensor
	past             int // positions before the queries
	precision        kernel.Precision
}

// scores computes relu(…) for the queries [at, at+m) of a sequence, (m, cols), zero for what they do not see.
func (o *reluAttentionOp) scores(x []float32, b, at, m int) (cols int) {
	l, s := o.q.Dim(1), o.q.Dim(2)
	cols = o.past + at + m
	o.precision.GemmInline(kernel.Product{
		Op: kernel.NT, M: m, N: cols, K: s, A: o.q.Data()[(b*l+at)*s:], LDA: s, B: o.k.Data()[b*o.k.Dim(1)*s:], LDB: s,
		C: x, LDC: cols,
	})
	scale, bias := float32(1/math.Sqrt(float64(s))), o.bias.Data()
	for r := range m {
		row, i := x[r*cols:][:cols], o.past+at+r
		for j, v := range row[:i+1] {
			row[j] = max(0, v*scale+bias[min(i-j, len(bias)-1)])
		}
		clear(row[i+1:])
	}
	return cols
}

// weights squares the scores and divides by what is seen.
func (o *reluAttentionOp) weights(a, x []float32, at, m, cols int) {
	kernel.MulInto(a[:m*cols], x[:m*cols], x[:m*cols])
	for r := range m {
		kernel.Scale(a[r*cols:][:cols], 1/float32(o.past+at+r+1))
	}
}

func (o *reluAttentionOp) forward(b, at int) {
	l, e := o.q.Dim(1), o.v.Dim(2)
	m := min(spatialRows, l-at)
	buf := getFloats(m * (o.past + l))
	defer putFloats(buf)
	x := *buf
	cols := o.scores(x, b, at, m)
	o.weights(x, x, at, m, cols)
	o.precision.GemmInline(kernel.Product{
		Op: kernel.NN, M: m, N: e, K: cols, A: x, LDA: cols, B: o.v.Data()[b*o.v.Dim(1)*e:], LDB: e,
		C: o.y.Data()[(b*l+at)*e:], LDC: e,
	})
}

func (o *reluAttentionOp) Name() string                   { return "SquaredReLUAttention" }
func (o *reluAttentionOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }

// Backward shares the sequences between cores; the gradient of the bias is summed over them in order.
func (o *reluAttentionOp) Backward(eng *Engine) {
	if o.y.Grad() == nil {
		return
	}
	b, n := o.q.Dim(0), o.bias.Len()
	dBias, partial := eng.gradOf(o.bias), eng.scratch(b*n)
	defer eng.done(partial)
	dq, dk, dv := eng.gradOf(o.q), eng.gradOf(o.k), eng.gradOf(o.v)
	parallel.For(b, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for at := 0; at < o.q.Dim(1); at += spatialRows {
				o.backward(dq, dk, dv, partial[i*n:][:n], i, at)
			}
		}
	})
	for i := 0; dBias != nil && i < b; i++ {
		kernel.Add(dBias, partial[i*n:][:n])
	}
}

func (o *reluAttentionOp) backward(dq, dk, dv, dBias []float32, b, at int) {
	l, all, s, e := o.q.Dim(1), o.k.Dim(1), o.q.Dim(2), o.v.Dim(2)
	m := min(spatialRows, l-at)
	buf := getFloats(3 * m * all)
	defer putFloats(buf)
	x, a, dx := (*buf)[:m*all], (*buf)[m*all:][:m*all], (*buf)[2*m*all:]
	cols := o.scores(x, b, at, m)
	o.weights(a, x, at, m, cols)
	dy := o.y.Grad()[(b*l+at)*e:]
	if dv != nil {
		o.precision.GemmInline(kernel.Product{
			Op: kernel.TN, M: cols, N: e, K: m, A: a, LDA: cols, B: dy, LDB: e, C: dv[b*all*e:], LDC: e, Add: true,
		})
	}
	o.precision.GemmInline(kernel.Product{
		Op: kernel.NT, M: m, N: cols, K: e, A: dy, LDA: e, B: o.v.Data()[b*all*e:], LDB: e, C: dx, LDC: cols,
	})
	scale := float32(1 / math.Sqrt(float64(s)))
	for r := range m {
		i, row := o.past+at+r, dx[r*cols:][:cols]
		kernel.Mul(row, x[r*cols:][:cols]) // zero where nothing is seen
		kernel.Scale(row, 2/float32(i+1))
		for j, v := range row[:i+1] {
			dBias[min(i-j, len(dBias)-1)] += v
		}
		kernel.Scale(row, scale)
	}
	if dq != nil {
		o.precision.GemmInline(kernel.Product{
			Op: kernel.NN, M: m, N: s, K: cols, A: dx, LDA: cols, B: o.k.Data()[b*all*s:], LDB: s,
			C: dq[(b*l+at)*s:], LDC: s, Add: true,
		})
	}
	if dk != nil {
		o.precision.GemmInline(kernel.Product{
			Op: kernel.TN, M: cols, N: s, K: m, A: dx, LDA: cols, B: o.q.Data()[(b*l+at)*s:], LDB: s,
			C: dk[b*all*s:], LDC: s, Add: true,
		})
	}
}
