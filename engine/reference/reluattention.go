package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SquaredReLUAttention is the attention of the gated attention unit (arXiv:2202.10447, §3.1). Position i, one of the
// last l of those that have keys and values, sees j ≤ i:
//
//	x[i, j] = relu(q_i·k_j/√s + bias[min(i-j, m-1)]),   y_i = Σ_j x[i, j]²·v_j/(i+1)
//
// Backward, with g = dx[i, j] where x[i, j] > 0, else 0:
//
//	g = 2 x[i, j]·(dy_i·v_j)/(i+1),   dv_j += x[i, j]²·dy_i/(i+1)
//	dq_i += g·k_j/√s,   dk_j += g·q_i/√s,   dbias[min(i-j, m-1)] += g
func (eng *Engine) oldSquaredReLUAttention(q *tensor.Tensor, keys, values engine.RowCache,
	bias *tensor.Tensor) *tensor.Tensor {
	batch, l, s, e, past := q.Dim(0), q.Dim(1), q.Dim(2), values.X.Dim(2), keys.Len-q.Dim(1)
	y := eng.New(batch, l, e)
	Q, K, V, B, ys := eng.values(q), eng.values(keys.X), eng.values(values.X), eng.values(bias), eng.values(y)
	root, room := math.Sqrt(float64(s)), keys.X.Dim(1)
	// each calls f for every pair: where its query, key, value and output begin, which bias it has, and i+1.
	each := func(f func(query, key, value, out, bias int, count float64)) {
		for b := range batch {
			for t := range l {
				i := past + t
				for j := range i + 1 {
					value := (b*values.X.Dim(1) + j) * e
					f((b*l+t)*s, (b*room+j)*s, value, (b*l+t)*e, min(i-j, len(B)-1), float64(i+1))
				}
			}
		}
	}
	score := func(query, key, bias int) float64 {
		return max(0, dot(Q[query:][:s], K[key:][:s])/root+B[bias])
	}
	each(func(query, key, value, out, bias int, count float64) {
		x := score(query, key, bias)
		for c := range e {
			ys[out+c] += x * x * V[value+c] / count
		}
	})
	eng.record("SquaredReLUAttention", list{y}, list{q, keys.X, values.X, bias}, func() {
		dy, dq, dbias := eng.gradOf(y), eng.gradOf(q), eng.gradOf(bias)
		dk, dv := eng.gradOf(keys.X), eng.gradOf(values.X)
		each(func(query, key, value, out, bias int, count float64) {
			x := score(query, key, bias)
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
