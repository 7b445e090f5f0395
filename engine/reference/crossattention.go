package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/tensor"
)

// CrossAttention is softmax attention of queries q (b, l, d) to keys and values kv (b, m, 2·d), head by head, with
// s = 1/√head_dim:
//
//	P[i,j] = softmax_j(s·q[i]·k[j]),   y[i] = Σ_j P[i,j]·v[j]
//
// Backward is that of Attention:
//
//	dP[i,j] = dy[i]·v[j],   dv[j] += P[i,j]·dy[i],   dS[i,j] = P[i,j]·(dP[i,j] - Σ_k P[i,k]·dP[i,k])
//	dq[i] += s·dS[i,j]·k[j],   dk[j] += s·dS[i,j]·q[i]
func (eng *Engine) oldCrossAttention(q, kv *tensor.Tensor, heads int) *tensor.Tensor {
	b, l, m, d := q.Dim(0), q.Dim(1), kv.Dim(1), q.Dim(2)
	hd, scale := d/heads, 1/math.Sqrt(float64(d/heads))
	y := eng.like(q)
	qs, kvs, ys := eng.values(q), eng.values(kv), eng.values(y)
	// The head's parts of query i, and of key and value j.
	query := func(x []float64, bh, i int) []float64 { return x[(bh/heads*l+i)*d+bh%heads*hd:][:hd] }
	key := func(x []float64, bh, j int) []float64 { return x[(bh/heads*m+j)*2*d+bh%heads*hd:][:hd] }
	value := func(x []float64, bh, j int) []float64 { return x[(bh/heads*m+j)*2*d+d+bh%heads*hd:][:hd] }
	p := make([][]float64, b*heads*l)
	for i := range p {
		bh, row := i/l, make([]float64, m)
		for j := range row {
			row[j] = scale * dot(query(qs, bh, i%l), key(kvs, bh, j))
		}
		softmax(row)
		out := query(ys, bh, i%l)
		for j, w := range row {
			addTimes(out, w, value(kvs, bh, j))
		}
		p[i] = row
	}
	eng.record("CrossAttention", list{y}, list{q, kv}, func() {
		dq, dkv, dy := eng.gradOf(q), eng.gradOf(kv), eng.gradOf(y)
		for i, row := range p {
			bh := i / l
			g, mean := query(dy, bh, i%l), 0.0
			for j, w := range row {
				mean += w * dot(g, value(kvs, bh, j))
			}
			for j, w := range row {
				ds := scale * w * (dot(g, value(kvs, bh, j)) - mean)
				addTimes(value(dkv, bh, j), w, g)
				addTimes(query(dq, bh, i%l), ds, key(kvs, bh, j))
				addTimes(key(dkv, bh, j), ds, query(qs, bh, i%l))
			}
		}
	})
	return y
}

// addTimes adds a·x to y.
func addTimes(y []float64, a float64, x []float64) {
	for i, v := range x {
		y[i] += a * v
	}
}
