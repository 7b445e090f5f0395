package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// Attention is softmax attention (arXiv:1706.03762), head by head. With q, k rotated to their positions, s = 1/√head_dim, m the
// slope of ALiBi and r the factor of dropout, 1/(1-p) or 0 for each weight:
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
func (eng *Engine) oldAttention(qkv *tensor.Tensor, cache *engine.KVCache, o engine.AttentionOptions, drop uint64) *tensor.Tensor {
	b, l, d := qkv.Dim(0), qkv.Dim(1), qkv.Dim(2)/3
	o.Lengths = slices.Clone(o.Lengths) // the caller may change his
	a := &attention{o: o, b: b, l: l, d: d, heads: o.Heads, hd: d / o.Heads, qkv: qkv}
	if cache != nil {
		if cache.Rounded != nil {
			panic("engine/reference.Attention: found rounded keys and values, want float32")
		}
		a.forget = cache.Len - o.Remembered(cache.Len)
		a.past, a.start, a.pastK, a.pastV = cache.Len-a.forget, cache.Start+a.forget, cache.K, cache.V
	}
	n := a.past + l
	a.k, a.v = eng.New(b, a.heads, n, a.hd), eng.New(b, a.heads, n, a.hd)
	a.fill(eng)
	y := eng.New(b, l, d)
	ys, ks, vs := eng.values(y), eng.values(a.k), eng.values(a.v)
	p, r := make([][]float64, b*a.heads*l), make([][]float64, b*a.heads*l) // rows of P, and of the factors of dropout
	scale := 1 / math.Sqrt(float64(a.hd))
	for bh := range b * a.heads {
		for i := range l {
			row := make([]float64, n)
			sum, largest := 0.0, math.Inf(-1)
			for j := range n {
				if row[j] = math.Inf(-1); !a.sees(bh, i, j) {
					continue
				}
				row[j] = scale * dot(a.q[bh*l+i], ks[(bh*n+j)*a.hd:][:a.hd])
				if o.ALiBi {
					row[j] -= engine.ALiBiSlope(bh%a.heads, a.heads) * float64(a.past+i-j)
				}
				largest = max(largest, row[j])
			}
			for j := range row {
				row[j] = math.Exp(row[j] - largest)
				sum += row[j]
			}
			factors := make([]float64, n)
			for j := range row {
				if math.IsInf(largest, -1) { // behind the end of the sequence
					row[j] = 0
					continue
				}
				row[j] /= sum
				factors[j] = eng.dropFactor(o.Dropout, drop, (bh*l+i)*n+j)
				for c := range a.hd {
					ys[a.at(bh, i)+c] += factors[j] * row[j] * vs[(bh*n+j)*a.hd+c]
				}
			}
			p[bh*l+i], r[bh*l+i] = row, factors
		}
	}
	eng.record("Attention", list{y, a.k, a.v}, list{qkv, a.pastK, a.pastV}, func() {
		dy, dk, dv := eng.gradOf(y), eng.gradOf(a.k), eng.gradOf(a.v)
		dq := make([]float64, b*a.heads*l*a.hd)
		for bh := range b * a.heads {
			for i := range l {
				row, factors, g := p[bh*l+i], r[bh*l+i], dy[a.at(bh, i):][:a.hd]
				dp, mean := make([]float64, n), 0.0
				for j := range n {
					dp[j] = factors[j] * dot(g, vs[(bh*n+j)*a.hd:][:a.hd])
					mean += row[j] * dp[j]
				}
				for j := range n {
					ds := scale * row[j] * (dp[j] - mean)
					for c := range a.hd {
						dv[(bh*n+j)*a.hd+c] += factors[j] * row[j] * g[c]
						dq[(bh*l+i)*a.hd+c] += ds * ks[(bh*n+j)*a.hd+c]
						dk[(bh*n+j)*a.hd+c] += ds * a.q[bh*l+i][c]
					}
				}
			}
		}
		a.scatter(eng, dq, dk, dv)
	})
	if cache != nil {
		*cache = engine.KVCache{K: a.k, V: a.v, Len: n, Start: a.start}
	}
	return y
}

type attention struct {
	o            engine.AttentionOptions
	b, l, d      int
	heads, hd    int
	start        int // position of the first key
	forget, past int // keys of the cache that no query sees any more, and those behind them
	qkv, k, v    *tensor.Tensor
	pastK, pastV *tensor.Tensor
	q            [][]float64 // rotated, (b·heads·l) of head_dim
}

// at is the place in y (b, l, heads·head_dim) of position i of sequence and head bh, and in each third of a row of qkv.
func (a *attention) at(bh, i int) int { return (bh/a.heads*a.l+i)*a.d + bh%a.heads*a.hd }

// inputs is the place in qkv of query (0), key (1) or value (2) i.
func (a *attention) inputs(which, bh, i int) int {
	return (bh/a.heads*a.l+i)*3*a.d + which*a.d + bh%a.heads*a.hd
}

// sees tells whether query i sees key j, which count from the first key.
func (a *attention) sees(bh, i, j int) bool {
	i += a.past
	if blocks := a.o.Blocks; blocks != nil {
		at, of := (a.start+i)/blocks.Size, (a.start+j)/blocks.Size
		count := at + 1
		if blocks.Ahead {
			count = (a.start + a.past + a.l + blocks.Size - 1) / blocks.Size
		} else if j > i {
			return false
		}
		for _, seen := range blocks.Seen(nil, bh%a.heads, at, count) {
			if seen == of {
				return true
			}
		}
		return false
	}
	if a.o.Ahead {
		n := a.l
		if a.o.Lengths != nil {
			n = a.o.Lengths[bh/a.heads]
		}
		return i < n && j < n
	}
	return j <= i && (a.o.Window == 0 || j > i-a.o.Window)
}

// fill sets queries, keys and values: those of the cache, then those of the chunk.
func (a *attention) fill(eng *Engine) {
	x, ks, vs, n := eng.values(a.qkv), eng.values(a.k), eng.values(a.v), a.past+a.l
	for bh := range a.b * a.heads {
		for j := range a.past {
			from := (bh*a.pastK.Dim(2) + a.forget + j) * a.hd
			copy(ks[(bh*n+j)*a.hd:][:a.hd], eng.values(a.pastK)[from:])
			copy(vs[(bh*n+j)*a.hd:][:a.hd], eng.values(a.pastV)[from:])
		}
		for i := range a.l {
			position := a.start + a.past + i
			q := append([]float64(nil), x[a.inputs(0, bh, i):][:a.hd]...)
			k := ks[(bh*n+a.past+i)*a.hd:][:a.hd]
			copy(k, x[a.inputs(1, bh, i):])
			copy(vs[(bh*n+a.past+i)*a.hd:][:a.hd], x[a.inputs(2, bh, i):])
			rotate(a.o.Rotary, q, position, 1, false)
			rotate(a.o.Rotary, k, position, -1, false)
			a.q = append(a.q, q)
		}
	}
}

// scatter brings the gradients of queries, keys and values back to the inputs and to the cache.
func (a *attention) scatter(eng *Engine, dq, dk, dv []float64) {
	dx, n := eng.gradOf(a.qkv), a.past+a.l
	for bh := range a.b * a.heads {
		if a.past > 0 {
			room := a.pastK.Dim(2)
			dPastK, dPastV := eng.gradOf(a.pastK), eng.gradOf(a.pastV)
			for c := range a.past * a.hd {
				dPastK[(bh*room+a.forget)*a.hd+c] += dk[bh*n*a.hd+c]
				dPastV[(bh*room+a.forget)*a.hd+c] += dv[bh*n*a.hd+c]
			}
		}
		for i := range a.l {
			position := a.start + a.past + i
			q := append([]float64(nil), dq[(bh*a.l+i)*a.hd:][:a.hd]...)
			k := append([]float64(nil), dk[(bh*n+a.past+i)*a.hd:][:a.hd]...)
			rotate(a.o.Rotary, q, position, 1, true)
			rotate(a.o.Rotary, k, position, -1, true)
			for c := range a.hd {
				dx[a.inputs(0, bh, i)+c] += q[c]
				dx[a.inputs(1, bh, i)+c] += k[c]
				dx[a.inputs(2, bh, i)+c] += dv[(bh*n+a.past+i)*a.hd+c]
			}
		}
	}
}

// rotate applies the rotary embedding of a position (engine.Rotary) to x, a query (sign 1) or a key (-1), or its transpose.
func rotate(r engine.Rotary, x []float64, position int, sign float64, transposed bool) {
	half := r.Dim / 2
	for i, f := range r.InvFreq() {
		sin, cos := math.Sincos(float64(position) * float64(f))
		if transposed {
			sin = -sin
		}
		factor := 1.0
		if r.XPos != 0 {
			factor = math.Pow((2*float64(i)/float64(r.Dim)+0.4)/1.4, sign*float64(position)/r.XPos)
		}
		a, b := x[i], x[half+i]
		x[i], x[half+i] = factor*(a*cos-b*sin), factor*(a*sin+b*cos)
	}
}

// dropFactor is what dropout multiplies element i by: 1/(1-p) where it keeps it, else 0; 1 where there is no dropout.
func (eng *Engine) dropFactor(p float64, seed uint64, i int) float64 {
	switch {
	case eng.Seed == nil || p == 0:
		return 1
	case counter.Keep(seed, i, counter.KeepThreshold(p)):
		return 1 / (1 - p)
	}
	return 0
}

func dot(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}
