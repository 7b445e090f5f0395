package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// Attention computes softmax attention (arXiv:1706.03762), row by row and head by head. q and k are rotated to their
// positions, s is the scale, k and v belong to the head that q's head sees, m is the slope of ALiBi, and r is the
// factor of dropout for each weight, 1/(1-p) or 0:
//
//	S[i,j] = s·q[i]·k[j] - m·(i-j)   where i sees j
//	P[i,j] = e^S[i,j] / Σ_j e^S[i,j]
//	y[i] = Σ_j r[i,j]·P[i,j]·v[j]
//
// Backward:
//
//	dP[i,j] = r[i,j]·dy[i]·v[j],   dv[j] += r[i,j]·P[i,j]·dy[i]
//	dS[i,j] = P[i,j]·(dP[i,j] - Σ_k P[i,k]·dP[i,k])
//	dq[i] += s·dS[i,j]·k[j],   dk[j] += s·dS[i,j]·q[i]
//
// where dv is dk if the values are the keys.
func (eng *Engine) Attention(qkv *tensor.Tensor, r *engine.Rows, caches []*engine.KVCache, o engine.AttentionOptions,
	drop uint64) *tensor.Tensor {
	hd := qkv.Dim(-1) / o.Packed()
	d := o.Heads * hd
	y := eng.New(r.Total(), d)
	var rows []*attention
	outputs, inputs, kinds := list{y}, list{qkv}, o.Kinds()
	for i := range r.Count() {
		a := &attention{o: o, from: r.From(i), l: r.Len(i), start: r.Start(i), d: d, hd: hd, qkv: qkv, y: y}
		if r.Trains() && o.Dropout > 0 {
			seed, threshold := r.Seed(i, drop), counter.KeepThreshold(o.Dropout)
			a.drops = func(place int) bool { return !counter.Keep(seed, place, threshold) }
		}
		var cache *engine.KVCache
		if i < len(caches) {
			cache = caches[i]
		}
		a.fill(eng, cache)
		a.forward(eng)
		rows = append(rows, a)
		outputs = append(outputs, list{a.k, a.v}[:kinds]...)
		inputs = append(inputs, list{a.pastK, a.pastV}[:kinds]...)
	}
	eng.record("Attention", outputs, inputs, func() {
		for _, a := range rows {
			a.backward(eng)
		}
	})
	return y
}

// attention is the attention of one row.
type attention struct {
	o            engine.AttentionOptions
	from, l      int // where the row starts in qkv, and its length
	d, hd        int
	start        int            // position of the first key
	forget, past int            // the numbers of keys of the cache that no query sees any more, and of those after them
	qkv, y, k, v *tensor.Tensor // v is k if the values are the keys
	pastK, pastV *tensor.Tensor
	q            [][]float64          // rotated, (heads·l) of head_dim
	p, r         [][]float64          // rows of P, and of the factors of dropout, (heads·l) of past+l
	drops        func(place int) bool // dropout of the weight at (head, query, key); nil for none
}

// at returns the index in y (n, heads·head_dim) of position i and head h.
func (a *attention) at(h, i int) int { return (a.from+i)*a.d + h*a.hd }

// inputs returns the index in qkv of query (0), key (1) or value (2) i.
func (a *attention) inputs(which, h, i int) int {
	head := [3]int{0, a.o.Heads, a.o.Heads + a.o.KeyHeads()}[which] + h
	return ((a.from+i)*a.o.Packed() + head) * a.hd
}

// key returns the index of key (or value) j, counted from the first, that head h of the queries sees.
func (a *attention) key(h, j int) int { return (a.o.KeyHead(h)*(a.past+a.l) + j) * a.hd }

// sees reports whether query i sees key j, both counted from the first key.
func (a *attention) sees(h, i, j int) bool {
	i += a.past
	if blocks := a.o.Blocks; blocks != nil {
		at, of := (a.start+i)/blocks.Size, (a.start+j)/blocks.Size
		count := at + 1
		if blocks.Ahead {
			count = (a.start + a.past + a.l + blocks.Size - 1) / blocks.Size
		} else if j > i {
			return false
		}
		for _, seen := range blocks.Seen(nil, h, at, count) {
			if seen == of {
				return true
			}
		}
		return false
	}
	return a.o.Ahead || j <= i && (a.o.Window == 0 || j > i-a.o.Window)
}

// fill sets queries, keys and values: those of the cache, which may be nil, and those of the row. It stores all of them
// in the cache.
func (a *attention) fill(eng *Engine, cache *engine.KVCache) {
	if cache != nil {
		if cache.Rounded != nil {
			panic("engine/reference.Attention: found rounded keys and values, want float32")
		}
		a.past = a.o.Remembered(cache.Len)
		a.forget = cache.Len - a.past
		a.start -= a.past
		a.pastK, a.pastV = cache.K, cache.V
	}
	n := a.past + a.l
	a.k = eng.New(a.o.KeyHeads(), n, a.hd)
	if a.v = a.k; !a.o.KeysAsValues {
		a.v = eng.New(a.o.KeyHeads(), n, a.hd)
	}
	if cache != nil {
		kept := engine.KVCache{K: a.k, Len: n, KeysAsValues: a.o.KeysAsValues}
		if cache.CopyTo(a.k, 0, a.forget, a.past); !a.o.KeysAsValues {
			cache.CopyTo(a.v, 1, a.forget, a.past)
			kept.V = a.v
		}
		*cache = kept
	}
	x, ks, vs := eng.values(a.qkv), eng.values(a.k), eng.values(a.v)
	for h := range a.o.Heads {
		for i := range a.l {
			position := a.start + a.past + i
			q := append([]float64(nil), x[a.inputs(0, h, i):][:a.hd]...)
			rotate(a.o.Rotary, q, position, 1, false)
			a.q = append(a.q, q)
		}
	}
	for h := range a.o.KeyHeads() {
		for i := range a.l {
			k := ks[(h*n+a.past+i)*a.hd:][:a.hd]
			copy(k, x[a.inputs(1, h, i):])
			rotate(a.o.Rotary, k, a.start+a.past+i, -1, false)
			if !a.o.KeysAsValues {
				copy(vs[(h*n+a.past+i)*a.hd:][:a.hd], x[a.inputs(2, h, i):])
			}
		}
	}
}

func (a *attention) forward(eng *Engine) {
	n, scale := a.past+a.l, a.o.ScaleOf(a.hd)
	ys, ks, vs := eng.values(a.y), eng.values(a.k), eng.values(a.v)
	for h := range a.o.Heads {
		k, v := ks[a.key(h, 0):], vs[a.key(h, 0):]
		for i := range a.l {
			row, factors, y := make([]float64, n), make([]float64, n), ys[a.at(h, i):][:a.hd]
			for j := range n {
				if row[j] = math.Inf(-1); !a.sees(h, i, j) {
					continue
				}
				row[j] = scale * dot(a.q[h*a.l+i], k[j*a.hd:])
				if a.o.ALiBi {
					row[j] -= engine.ALiBiSlope(h, a.o.Heads) * float64(a.past+i-j)
				}
			}
			softmax(row)
			for j := range row {
				factors[j] = a.dropFactor((h*a.l+i)*n + j)
				axpy(y, factors[j]*row[j], v[j*a.hd:])
			}
			a.p, a.r = append(a.p, row), append(a.r, factors)
		}
	}
}

// dropFactor returns the factor by which dropout multiplies the weight at a place: 1/(1-p) if it keeps the weight, else
// 0; 1 if there is no dropout.
func (a *attention) dropFactor(place int) float64 {
	switch {
	case a.drops == nil:
		return 1
	case a.drops(place):
		return 0
	}
	return 1 / (1 - a.o.Dropout)
}

func (a *attention) backward(eng *Engine) {
	n, scale := a.past+a.l, a.o.ScaleOf(a.hd)
	ks, vs := eng.values(a.k), eng.values(a.v)
	dy, dk, dv := eng.gradOf(a.y), eng.gradOf(a.k), eng.gradOf(a.v)
	dq := make([]float64, a.l*a.d)
	for h := range a.o.Heads {
		for i := range a.l {
			row, factors, g := a.p[h*a.l+i], a.r[h*a.l+i], dy[a.at(h, i):][:a.hd]
			dp, mean := make([]float64, n), 0.0
			for j := range n {
				dp[j] = factors[j] * dot(g, vs[a.key(h, j):][:a.hd])
				mean += row[j] * dp[j]
			}
			for j := range n {
				ds := scale * row[j] * (dp[j] - mean)
				axpy(dv[a.key(h, j):][:a.hd], factors[j]*row[j], g)
				axpy(dq[(h*a.l+i)*a.hd:][:a.hd], ds, ks[a.key(h, j):])
				axpy(dk[a.key(h, j):][:a.hd], ds, a.q[h*a.l+i])
			}
		}
	}
	a.scatter(eng, dq, dk, dv)
}

// scatter adds the gradients of queries, keys and values to those of the inputs and of the cache.
func (a *attention) scatter(eng *Engine, dq, dk, dv []float64) {
	dx, n := eng.gradOf(a.qkv), a.past+a.l
	for h := range a.o.KeyHeads() {
		if a.pastK != nil {
			before := a.pastK.Dim(-2)
			for which, past := range []*tensor.Tensor{a.pastK, a.pastV}[:a.o.Kinds()] {
				to, from := eng.gradOf(past), [2][]float64{dk, dv}[which]
				for c := range a.past * a.hd {
					to[(h*before+a.forget)*a.hd+c] += from[h*n*a.hd+c]
				}
			}
		}
		for i := range a.l {
			position := a.start + a.past + i
			k := append([]float64(nil), dk[(h*n+a.past+i)*a.hd:][:a.hd]...)
			rotate(a.o.Rotary, k, position, -1, true)
			for c := range a.hd {
				if dx[a.inputs(1, h, i)+c] += k[c]; !a.o.KeysAsValues {
					dx[a.inputs(2, h, i)+c] += dv[(h*n+a.past+i)*a.hd+c]
				}
			}
		}
	}
	for h := range a.o.Heads {
		for i := range a.l {
			q := append([]float64(nil), dq[(h*a.l+i)*a.hd:][:a.hd]...)
			rotate(a.o.Rotary, q, a.start+a.past+i, 1, true)
			for c := range a.hd {
				dx[a.inputs(0, h, i)+c] += q[c]
			}
		}
	}
}

func dot(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}
