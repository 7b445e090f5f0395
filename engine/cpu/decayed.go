package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// decayed is a recurrence of one head of one row whose state decays as a whole,
//
//	S[t] = e^a[t]·S[t-1] + u[t]·Σ_r k_r[t]·v_r[t]ᵀ,   N_r[t] = S[t]ᵀ·q_r[t]
//
// with one or more ranks r of queries, keys and values at a position. It is computed a chunk of positions at a time: by
// products of matrices inside the chunk, and by the state between chunks, as in Mamba-2 (arXiv:2405.21060, §6). The
// weights with which a position reads its own keys may differ from u.
//
// The ranks of a position are consecutive rows of a chunk. With n rows, Q, K (n, e), V (n, m), A the sum of a from the
// start of the chunk,
//
//	L[t, s] = e^(A[t]-A[s]) for s ≤ t,   W = L ⊙ Q (u·K)ᵀ,   N = W V + (e^A·Q) S
//	S' = e^A[n]·S + (L[n]·u·K)ᵀ V
//
// Each exponent is the sum of its own terms only, so nothing cancels. A normalizer z, of e numbers, is carried like a
// column of S whose values are 1: its part of N is d = W 1 + (e^A·Q) z.
type decayed struct {
	ranks, e, m  int
	q, k, v      []float32 // from the first position of the row on, qStep or vStep floats from a rank to the next
	qStep, vStep int
	steps        []float32 // a (l)
	write        []float32 // u (l)
	own          []float32 // (l): weights of a position's reads of its own keys; nil to use write
	s            []float32 // the state (e, m) before the chunk
	z            []float32 // (e), nil for no normalizer
	zero         bool      // the state is zero
	decayedChunk
	scratch *[]float32
}

// decayedChunk holds the matrices for a chunk of n rows.
type decayedChunk struct {
	n            int
	rate, weight []float32 // a and u of each row (n); a only for the first rank of a position, else 0
	start, end   []float32 // e^A and L[n] (n)
	l, w         []float32 // L and W (n, n)
	ku, qe       []float32 // u·K and e^A·Q (n, e)
	kw           []float32 // L[n]·u·K (n, e)
}

// decayedRows is the number of rows of a chunk, unless a single position has more.
const decayedRows = 64

// positions returns the number of positions of a chunk.
func (h *decayed) positions() int { return max(1, decayedRows/h.ranks) }

// lend gives the head memory for its chunks, and returns more floats for the caller. It must be given back with
// putFloats.
func (h *decayed) lend(more int) []float32 {
	c := h.ranks * min(h.positions(), len(h.steps))
	h.scratch = getFloats(4*c + 2*c*c + 3*c*h.e + more)
	rest := *h.scratch
	for _, x := range []struct {
		to *[]float32
		n  int
	}{{&h.rate, c}, {&h.weight, c}, {&h.start, c}, {&h.end, c}, {&h.l, c * c}, {&h.w, c * c}, {&h.ku, c * h.e},
		{&h.qe, c * h.e}, {&h.kw, c * h.e}} {
		*x.to, rest = rest[:x.n:x.n], rest[x.n:]
	}
	return rest
}

// load computes the matrices of the positions [t0, t1).
func (h *decayed) load(t0, t1 int) {
	h.n = (t1 - t0) * h.ranks
	n, sum := h.n, float32(0)
	for i := range n {
		t := t0 + i/h.ranks
		h.rate[i], h.weight[i] = 0, h.write[t]
		if i%h.ranks == 0 {
			h.rate[i] = h.steps[t]
		}
		sum += h.rate[i]
		h.start[i] = sum
	}
	kernel.ExpShift(h.start[:n], 0, 1)
	kernel.Decays(h.l[:n*n], h.rate[:n])
	q, k := h.rows(h.q, h.qStep, t0), h.rows(h.k, h.qStep, t0)
	kernel.ScaleRows(h.ku, h.e, k, h.qStep, h.weight, 1, n, h.e)
	kernel.ScaleRows(h.qe, h.e, q, h.qStep, h.start, 1, n, h.e)
	copy(h.end, h.l[(n-1)*n:][:n])
	kernel.ScaleRows(h.kw, h.e, h.ku, h.e, h.end, 1, n, h.e)
	kernel.GemmInline(kernel.Product{Op: kernel.NT, M: n, N: n, K: h.e, A: q, LDA: h.qStep, B: h.ku, LDB: h.e,
		C: h.w, LDC: n})
	if h.own != nil {
		h.eachOwn(func(i, j int) { h.l[i*n+j] = 0 })
	}
	kernel.Mul(h.w[:n*n], h.l[:n*n])
	if h.own != nil {
		h.eachOwn(func(i, j int) {
			h.w[i*n+j] = h.own[t0+i/h.ranks] * kernel.Dot(q[i*h.qStep:][:h.e], k[j*h.qStep:][:h.e])
		})
	}
}

// rows returns the positions from t0 on in x.
func (h *decayed) rows(x []float32, step, t0 int) []float32 { return x[t0*h.ranks*step:] }

// eachOwn calls f for all pairs of rows of one position.
func (h *decayed) eachOwn(f func(i, j int)) {
	for i := range h.n {
		first := i - i%h.ranks
		for j := first; j < first+h.ranks; j++ {
			f(i, j)
		}
	}
}

// read sets y, whose rows are ld floats apart, to N of the loaded positions from t0 on.
func (h *decayed) read(y []float32, ld, t0 int) {
	n := h.n
	v := h.rows(h.v, h.vStep, t0)
	for t := 0; t < n; t += insideRows {
		rows := min(insideRows, n-t)
		seen := min(n, (t+rows+h.ranks-1)/h.ranks*h.ranks) // later columns of w are zero
		kernel.GemmInline(kernel.Product{Op: kernel.NN, M: rows, N: h.m, K: seen, A: h.w[t*n:], LDA: n,
			B: v, LDB: h.vStep, C: y[t*ld:], LDC: ld})
	}
	if !h.zero {
		kernel.GemmInline(kernel.Product{Op: kernel.NN, M: n, N: h.m, K: h.e, A: h.qe, LDA: h.e, B: h.s, LDB: h.m,
			C: y, LDC: ld, Add: true})
	}
}

// normalizer returns d of row i.
func (h *decayed) normalizer(i int) float32 {
	return kernel.Dot(h.w[i*h.n:][:i+1], linearOnes[:]) + kernel.Dot(h.qe[i*h.e:][:h.e], h.z)
}

// carry carries the state through the loaded positions from t0 on.
func (h *decayed) carry(t0 int) {
	last := h.start[h.n-1]
	kernel.Scale(h.s, last)
	kernel.GemmInline(kernel.Product{Op: kernel.TN, M: h.e, N: h.m, K: h.n, A: h.kw, LDA: h.e,
		B: h.rows(h.v, h.vStep, t0), LDB: h.vStep, C: h.s, LDC: h.m, Add: true})
	if h.z != nil {
		kernel.Scale(h.z, last)
		for i := range h.n {
			kernel.Add(h.z, h.kw[i*h.e:][:h.e])
		}
	}
	h.zero = false
}

// fill sets all of x to v.
func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
