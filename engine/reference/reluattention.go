package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SquaredReLUAttention is the attention of the gated attention unit (arXiv:2202.10447, §3.1). Position i of a row,
// counted from the first in its cache, sees j ≤ i:
//
//	x[i, j] = relu(q_i·k_j/√s + bias[min(i-j, m-1)]),   y_i = Σ_j x[i, j]²·v_j/(i+1)
//
// Backward, with g = dx[i, j] where x[i, j] > 0, else 0:
//
//	g = 2 x[i, j]·(dy_i·v_j)/(i+1),   dv_j += x[i, j]²·dy_i/(i+1)
//	dq_i += g·k_j/√s,   dk_j += g·q_i/√s,   dbias[min(i-j, m-1)] += g
func (eng *Engine) SquaredReLUAttention(q, k, v, bias *tensor.Tensor, r *engine.Rows,
	keys, values []*engine.RowCache) *tensor.Tensor {
	s, e := q.Dim(-1), v.Dim(-1)
	y := eng.like(v)
	ks, vs := eng.see(k, r, keys), eng.see(v, r, values)
	Q, B, ys := eng.values(q), eng.values(bias), eng.values(y)
	root := math.Sqrt(float64(s))
	// each calls f for every pair of positions of a row, with the indices of the query and the output, those of the key
	// and value among the positions that the row sees, the index of the bias, and i+1.
	each := func(f func(row, query, out, key, value, bias int, count float64)) {
		for row := range r.Count() {
			past := ks[row].Dim(0) - r.Len(row)
			for t := range r.Len(row) {
				i, at := past+t, r.From(row)+t
				for j := range i + 1 {
					f(row, at*s, at*e, j*s, j*e, min(i-j, len(B)-1), float64(i+1))
				}
			}
		}
	}
	score := func(row, query, key, bias int) float64 {
		return max(0, dot(Q[query:][:s], eng.values(ks[row])[key:][:s])/root+B[bias])
	}
	each(func(row, query, out, key, value, bias int, count float64) {
		x, V := score(row, query, key, bias), eng.values(vs[row])
		for c := range e {
			ys[out+c] += x * x * V[value+c] / count
		}
	})
	inputs := append(append(list{q, bias}, ks...), vs...)
	eng.record("SquaredReLUAttention", list{y}, inputs, func() {
		dy, dq, dbias := eng.gradOf(y), eng.gradOf(q), eng.gradOf(bias)
		each(func(row, query, out, key, value, bias int, count float64) {
			K, V, dk, dv := eng.values(ks[row]), eng.values(vs[row]), eng.gradOf(ks[row]), eng.gradOf(vs[row])
			x := score(row, query, key, bias)
			g := 2 * x * dot(dy[out:][:e], V[value:][:e]) / count
			for c := range e {
				dv[value+c] += x * x * dy[out+c] / count
			}
			for c := range s {
				dq[query+c] += g * K[key+c] / root
				dk[key+c] += g * Q[query+c] / root
			}
			dbias[bias] += g
		})
	})
	return y
}
