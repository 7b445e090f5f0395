package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// SquaredReLUAttention computes the scores of 64 queries of a row at a time, over all keys that they see.
func (eng *Engine) SquaredReLUAttention(q, k, v, bias *tensor.Tensor, r *engine.Rows,
	keys, values []*engine.RowCache) *tensor.Tensor {
	op := take[reluAttentionOp](eng)
	*op = reluAttentionOp{q: q, bias: bias, y: eng.like(v), rows: r, precision: eng.precision(),
		k: eng.see(op.k, k, r, keys), v: eng.see(op.v, v, r, values)}
	overPieces(r, spatialRows, 1, op.forward)
	op.k.release()
	op.v.release()
	record := eng.wants(q, bias)
	record = op.k.wants(eng) || record
	if op.v.wants(eng) || record {
		eng.push("SquaredReLUAttention", op, op.y)
	}
	return op.y
}

type reluAttentionOp struct {
	q, bias, y *tensor.Tensor
	k, v       seen
	rows       *engine.Rows
	precision  kernel.Precision
}

// at returns the index of the elements of position t of row i in a tensor of d columns.
func (o *reluAttentionOp) at(i, t, d int) int { return (o.rows.From(i) + t) * d }

// scores computes relu(…) for the queries [lo, hi) of row i, (hi-lo, columns), zero for keys that they do not see.
func (o *reluAttentionOp) scores(x []float32, i, lo, hi int) (columns int) {
	s, past := o.q.Dim(-1), o.k.past(i)
	columns = past + hi
	for p := 0; p < columns; {
		k, n := o.k.run(i, p)
		n = min(n, columns-p)
		o.precision.GemmInline(kernel.Product{Op: kernel.NT, M: hi - lo, N: n, K: s,
			A: o.q.Data()[o.at(i, lo, s):], LDA: s, B: k, LDB: s, C: x[p:], LDC: columns})
		p += n
	}
	scale, bias := float32(1/math.Sqrt(float64(s))), o.bias.Data()
	for t := lo; t < hi; t++ {
		row, at := x[(t-lo)*columns:][:columns], past+t
		for j, v := range row[:at+1] {
			row[j] = max(0, v*scale+bias[min(at-j, len(bias)-1)])
		}
		clear(row[at+1:])
	}
	return columns
}

// weights squares the scores of queries and divides them by the number of keys that each query sees, sees for the first
// query.
func (o *reluAttentionOp) weights(a, x []float32, columns, sees int) {
	kernel.MulInto(a, x, x)
	for t := range len(a) / columns {
		kernel.Scale(a[t*columns:][:columns], 1/float32(sees+t))
	}
}

func (o *reluAttentionOp) forward(i, lo, hi int) {
	e, past := o.v.x.Dim(-1), o.k.past(i)
	buf := getFloats((hi - lo) * (past + hi))
	defer putFloats(buf)
	x := *buf
	columns := o.scores(x, i, lo, hi)
	o.weights(x, x, columns, past+lo+1)
	y := o.y.Data()[o.at(i, lo, e):]
	for p := 0; p < columns; {
		v, n := o.v.run(i, p)
		n = min(n, columns-p)
		o.precision.GemmInline(kernel.Product{Op: kernel.NN, M: hi - lo, N: e, K: n, A: x[p:], LDA: columns,
			B: v, LDB: e, C: y, LDC: e, Add: p > 0})
		p += n
	}
}

// Backward distributes the rows over the cores. Their parts of the bias's gradient are added in order.
func (o *reluAttentionOp) Backward(eng *Engine) {
	rows, n := o.rows.Count(), o.bias.Len()
	dBias, partial := eng.gradOf(o.bias), eng.scratch(rows*n)
	defer eng.done(partial)
	dq, dk, dv := eng.gradOf(o.q), o.k.grads(eng), o.v.grads(eng)
	parallel.For(rows, 1, func(r0, r1 int) {
		for i := r0; i < r1; i++ {
			for lo := 0; lo < o.rows.Len(i); lo += spatialRows {
				o.backward(dq, dk[i], dv[i], partial[i*n:][:n], i, lo, min(lo+spatialRows, o.rows.Len(i)))
			}
		}
	})
	for i := 0; dBias != nil && i < rows; i++ {
		kernel.Add(dBias, partial[i*n:][:n])
	}
}

// backward is the backward pass of forward. dk and dv are the gradients of all keys and values that row i sees, or nil.
func (o *reluAttentionOp) backward(dq, dk, dv, dBias []float32, i, lo, hi int) {
	s, e, m, past := o.q.Dim(-1), o.v.x.Dim(-1), hi-lo, o.k.past(i)
	columns := past + hi
	buf := getFloats(3 * m * columns)
	defer putFloats(buf)
	x, a, dx := (*buf)[:m*columns], (*buf)[m*columns:][:m*columns], (*buf)[2*m*columns:]
	o.scores(x, i, lo, hi)
	o.weights(a, x, columns, past+lo+1)
	k, _ := o.k.run(i, 0)
	v, _ := o.v.run(i, 0)
	dy, q := o.y.Grad()[o.at(i, lo, e):], o.q.Data()[o.at(i, lo, s):]
	gemm := o.precision.GemmInline
	if dv != nil {
		gemm(kernel.Product{Op: kernel.TN, M: columns, N: e, K: m, A: a, LDA: columns, B: dy, LDB: e,
			C: dv, LDC: e, Add: true})
	}
	gemm(kernel.Product{Op: kernel.NT, M: m, N: columns, K: e, A: dy, LDA: e, B: v, LDB: e, C: dx, LDC: columns})
	scale := float32(1 / math.Sqrt(float64(s)))
	for t := range m {
		at, row := past+lo+t, dx[t*columns:][:columns]
		kernel.Mul(row, x[t*columns:][:columns]) // zero for keys that a query does not see
		kernel.Scale(row, 2/float32(at+1))
		for j, g := range row[:at+1] {
			dBias[min(at-j, len(dBias)-1)] += g
		}
		kernel.Scale(row, scale)
	}
	if dq != nil {
		gemm(kernel.Product{Op: kernel.NN, M: m, N: s, K: columns, A: dx, LDA: columns, B: k, LDB: s,
			C: dq[o.at(i, lo, s):], LDC: s, Add: true})
	}
	if dk != nil {
		gemm(kernel.Product{Op: kernel.TN, M: columns, N: s, K: m, A: dx, LDA: columns, B: q, LDB: s,
			C: dk, LDC: s, Add: true})
	}
}
