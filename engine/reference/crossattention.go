package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// CrossAttention is softmax attention of the queries of a row to the keys and values of the row with the same number,
// head by head, with s = 1/√head_dim:
//
//	P[i,j] = softmax_j(s·q[i]·k[j]),   y[i] = Σ_j P[i,j]·v[j]
//
// Backward is as in Attention:
//
//	dP[i,j] = dy[i]·v[j],   dv[j] += P[i,j]·dy[i],   dS[i,j] = P[i,j]·(dP[i,j] - Σ_k P[i,k]·dP[i,k])
//	dq[i] += s·dS[i,j]·k[j],   dk[j] += s·dS[i,j]·q[i]
func (eng *Engine) CrossAttention(q, kv *tensor.Tensor, heads int, rq, rkv *engine.Rows) *tensor.Tensor {
	d := q.Dim(-1)
	hd, scale := d/heads, 1/math.Sqrt(float64(d/heads))
	y := eng.like(q)
	qs, kvs, ys := eng.values(q), eng.values(kv), eng.values(y)
	// These return the part of head h of query i, of key j and of value j, which are counted through all rows.
	query := func(x []float64, h, i int) []float64 { return x[i*d+h*hd:][:hd] }
	key := func(x []float64, h, j int) []float64 { return x[j*2*d+h*hd:][:hd] }
	value := func(x []float64, h, j int) []float64 { return x[j*2*d+d+h*hd:][:hd] }
	// each calls f for every head and query i, with the index of the first key that it sees.
	each := func(f func(row, h, i, first int)) {
		for row := range rq.Count() {
			for i := range rq.Len(row) {
				for h := range heads {
					f(row, h, rq.From(row)+i, rkv.From(row))
				}
			}
		}
	}
	p := make([][]float64, rq.Total()*heads) // of query i and head h at i·heads + h
	each(func(row, h, i, first int) {
		weights := make([]float64, rkv.Len(row))
		for j := range weights {
			weights[j] = scale * dot(query(qs, h, i), key(kvs, h, first+j))
		}
		softmax(weights)
		for j, w := range weights {
			addTimes(query(ys, h, i), w, value(kvs, h, first+j))
		}
		p[i*heads+h] = weights
	})
	eng.record("CrossAttention", list{y}, list{q, kv}, func() {
		dq, dkv, dy := eng.gradOf(q), eng.gradOf(kv), eng.gradOf(y)
		each(func(_, h, i, first int) {
			g, mean := query(dy, h, i), 0.0
			for j, w := range p[i*heads+h] {
				mean += w * dot(g, value(kvs, h, first+j))
			}
			for j, w := range p[i*heads+h] {
				ds := scale * w * (dot(g, value(kvs, h, first+j)) - mean)
				addTimes(value(dkv, h, first+j), w, g)
				addTimes(query(dq, h, i), ds, key(kvs, h, first+j))
				addTimes(key(dkv, h, first+j), ds, query(qs, h, i))
			}
		})
	})
	return y
}

// addTimes adds a·x to y.
func addTimes(y []float64, a float64, x []float64) {
	for i, v := range x {
		y[i] += a * v
	}
}
