package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
)

// The sort nets of BucketAttention, in the official code's four forms. A bucket u scores candidate c by x[u, c]:
//
//	comparing, causal:  x = q̄_u · Σ_{i in bucket} k̄_i / √head_dim,  q̄, k̄ the means of all queries or keys up to a
//	                    position, q̄_u at the first one of the bucket; 0 for empty buckets
//	comparing, ahead:   x = mean(q in u) · mean(k in c) / √head_dim, at temperature 1
//	linear, causal:     x = leakyReLU([k̄_u, k_u] W),  at the first position of the bucket
//	linear, ahead:      x = ReLU([Σ q in u, Σ k in u] W)
//
// Then, Top times, the candidate with the largest weight under softmax(x/temperature) is picked and taken out.
type bucketSort struct {
	bucketSums
	picks   []pick    // of the buckets that have queries of the row
	x       []float32 // their scores (buckets, columns)
	e       int       // components of a summary
	columns int
	scratch *[]float32
}

// bucketSums holds the summaries of the buckets of a head, and the sums needed to continue them.
type bucketSums struct {
	a, b       []float32 // factors of the scores: (buckets, e) each; only a for the linear sort net
	sumQ, sumK []float32 // of all positions, causal only
	seen       int       // number of positions summed so far
}

// grow makes space for the summaries of count buckets.
func (s *bucketSums) grow(count, e, hd int) {
	if s.sumQ == nil {
		s.sumQ, s.sumK = make([]float32, hd), make([]float32, hd)
	}
	for len(s.a) < count*e {
		s.a, s.b = append(s.a, 0), append(s.b, 0)
	}
}

// picksOf returns the picks of a bucket that has queries of the row.
func (g *bucketHead) picksOf(u int) []pick { return g.sorter.picks[(u-g.from)*g.Top:][:g.Top] }

// leak returns the slope of the linear sort net below zero.
func (g *bucketHead) leak() float32 {
	if g.Ahead {
		return 0
	}
	return 0.01
}

func (g *bucketHead) temperature() float32 {
	if g.Ahead && g.Sort == nil {
		return 1 // in the official code, for every Temperature
	}
	return g.Temperature
}

// empties returns the number of candidates that are empty buckets.
func (g *bucketHead) empties() int {
	if g.Ahead {
		return 0
	}
	return g.Top
}

// net returns the head's part of W.
func (g *bucketHead) net(w []float32) []float32 {
	n := 2 * g.hd * g.columns()
	return w[g.h*n:][:n]
}

// kept returns the sums over the positions before the row, or nil if there are none.
func (g *bucketHead) kept() *bucketSums {
	if g.i >= len(g.sums) || g.sums[g.i] == nil {
		return nil
	}
	return &g.sums[g.i][g.h]
}

// sort computes the scores and picks.
func (g *bucketHead) sort() {
	s := &g.sorter
	s.e, s.columns = g.hd, g.count
	if g.Sort != nil {
		s.e, s.columns = 2*g.hd, g.columns()
	}
	rows, gemm := g.count-g.from, kernel.GemmInline
	if kept := g.kept(); kept != nil {
		s.scratch = getFloats(rows * s.columns)
		s.x = *s.scratch
		kept.grow(g.count, s.e, g.hd)
		s.bucketSums = *kept
		g.summarize()
		kept.seen = s.seen
	} else {
		s.scratch = getFloats(2*(g.count*s.e+g.hd) + rows*s.columns)
		s.a, s.b, s.sumQ, s.sumK, s.x = split5(*s.scratch, g.count*s.e, g.count*s.e, g.hd, g.hd, rows*s.columns)
		clear((*s.scratch)[:2*(g.count*s.e+g.hd)])
		g.summarize()
	}
	if g.Sort != nil {
		w := g.net(g.Sort.Data())
		gemm(kernel.Product{Op: kernel.NN, M: rows, N: s.columns, K: s.e, A: s.a[g.from*s.e:], LDA: s.e,
			B: w, LDB: s.columns, C: s.x, LDC: s.columns})
		leak := g.leak()
		for i, v := range s.x {
			if v < 0 {
				s.x[i] = leak * v
			}
		}
	} else {
		gemm(kernel.Product{Op: kernel.NT, M: rows, N: g.count, K: s.e, A: s.a[g.from*s.e:], LDA: s.e, B: s.b, LDB: s.e,
			C: s.x, LDC: g.count})
		kernel.Scale(s.x, g.scale)
	}
	g.choose()
}

// summarize adds the positions that are not in the summaries yet.
func (g *bucketHead) summarize() {
	s := &g.sorter
	if g.Ahead {
		for p := range g.n {
			u := p / g.Bucket
			q, k := g.summaries(u)
			kernel.Add(q, g.query(p))
			kernel.Add(k, g.key(p))
		}
		if g.Sort == nil {
			kernel.Scale(s.a, 1/float32(g.Bucket))
			kernel.Scale(s.b, 1/float32(g.Bucket))
		}
		return
	}
	for ; s.seen < g.n-g.first; s.seen++ {
		i := s.seen
		p, u := g.first+i, i/g.Bucket
		kernel.Add(s.sumQ, g.query(p))
		kernel.Add(s.sumK, g.key(p))
		share, begins := 1/float32(i+1), i%g.Bucket == 0
		switch {
		case g.Sort == nil:
			if begins {
				kernel.Axpy(share, s.sumQ, s.a[u*s.e:][:g.hd])
			}
			kernel.Axpy(share, s.sumK, s.b[u*s.e:][:g.hd])
		case begins:
			kernel.Axpy(share, s.sumK, s.a[u*s.e:][:g.hd])
			copy(s.a[u*s.e+g.hd:][:g.hd], g.key(p))
		}
	}
}

// summaries returns the sums of queries and of keys of bucket u, for attention that looks ahead.
func (g *bucketHead) summaries(u int) (q, k []float32) {
	s := &g.sorter
	if g.Sort == nil {
		return s.a[u*s.e:][:g.hd], s.b[u*s.e:][:g.hd]
	}
	return s.a[u*s.e:][:g.hd], s.a[u*s.e+g.hd:][:g.hd]
}

// candidatesOf returns the scores of the buckets that u picks from, in buf, which has space for all candidates.
func (g *bucketHead) candidatesOf(u int, buf []float32) []float32 {
	s, n := &g.sorter, g.candidates(u)
	x := buf[:n]
	row := s.x[(u-g.from)*s.columns:][:s.columns]
	if g.Sort != nil {
		copy(x, row)
		return x
	}
	e := g.empties()
	clear(x[:e])
	copy(x[e:], row)
	return x
}

// weights replaces x by softmax(x/temperature) over the candidates that are not taken yet.
func (g *bucketHead) weights(x []float32, taken []int) {
	kernel.Scale(x, 1/g.temperature())
	for _, c := range taken {
		x[c] = float32(math.Inf(-1))
	}
	kernel.Softmax(x, 1)
}

// choose makes the picks of every bucket.
func (g *bucketHead) choose() {
	s := &g.sorter
	s.picks = resize(s.picks, (g.count-g.from)*g.Top)
	buf := getFloats(g.count + g.Top)
	defer putFloats(buf)
	for u := g.from; u < g.count; u++ {
		g.eachPick(u, *buf, func(i, c int, p []float32) {
			g.picksOf(u)[i] = pick{v: c - g.empties(), r: p[c]}
		})
	}
}

// eachPick calls f for every pick of u, with the candidate and the weights of all candidates.
func (g *bucketHead) eachPick(u int, buf []float32, f func(i, c int, p []float32)) {
	var taken [engine.MaxTop]int
	for i := range g.Top {
		p := g.candidatesOf(u, buf)
		g.weights(p, taken[:i])
		c := engine.Heaviest(p)
		taken[i] = c
		f(i, c, p)
	}
}

// sortGrad propagates the gradients dr (buckets, Top) of the picks' weights to queries, keys and the sort net. dw is
// the head's part of the sort net's gradient, or nil if it is not wanted.
func (g *bucketHead) sortGrad(dr, dw []float32) {
	s := &g.sorter
	rows, from, gemm := g.count-g.from, g.from*s.e, kernel.GemmInline
	buf := getFloats(rows*s.columns + g.count + g.Top + 2*g.count*s.e)
	defer putFloats(buf)
	dx, p, da, db, _ := split5(*buf, rows*s.columns, g.count+g.Top, g.count*s.e, g.count*s.e, 0)
	clear(dx)
	clear(da[:from])
	skip := 0
	if g.Sort == nil {
		skip = g.empties()
	}
	for u := g.from; u < g.count; u++ {
		row := dx[(u-g.from)*s.columns:]
		g.eachPick(u, p, func(i, c int, p []float32) {
			d := dr[u*g.Top+i] * p[c] / g.temperature()
			kernel.Axpy(-d, p[skip:], row[:len(p)-skip])
			if c >= skip {
				row[c-skip] += d
			}
		})
	}
	if g.Sort == nil {
		kernel.Scale(dx, g.scale)
		gemm(kernel.Product{Op: kernel.NN, M: rows, N: s.e, K: g.count, A: dx, LDA: g.count, B: s.b, LDB: s.e,
			C: da[from:], LDC: s.e})
		gemm(kernel.Product{Op: kernel.TN, M: g.count, N: s.e, K: rows, A: dx, LDA: g.count, B: s.a[from:], LDB: s.e,
			C: db, LDC: s.e})
	} else {
		leak := g.leak()
		for i, v := range s.x {
			if v <= 0 {
				dx[i] *= leak
			}
		}
		w := g.net(g.Sort.Data())
		gemm(kernel.Product{Op: kernel.NT, M: rows, N: s.e, K: s.columns, A: dx, LDA: s.columns, B: w, LDB: s.columns,
			C: da[from:], LDC: s.e})
		if dw != nil {
			gemm(kernel.Product{Op: kernel.TN, M: s.e, N: s.columns, K: rows, A: s.a[from:], LDA: s.e,
				B: dx, LDB: s.columns, C: dw, LDC: s.columns, Add: true})
		}
	}
	g.summaryGrad(da, db)
}

// summaryGrad is the backward pass of summarize, from the gradients of the summaries.
func (g *bucketHead) summaryGrad(da, db []float32) {
	s := &g.sorter
	s.a, s.b = da, db // summaries now returns gradients
	if g.Ahead {
		share := float32(1)
		if g.Sort == nil {
			share = 1 / float32(g.Bucket)
		}
		for p := range g.n {
			q, k := g.summaries(p / g.Bucket)
			g.addGrads(p, share, q, k)
		}
		return
	}
	buf := getFloats(2 * g.hd)
	defer putFloats(buf)
	sumQ, sumK := (*buf)[:g.hd], (*buf)[g.hd:]
	clear(*buf)
	for i := g.n - g.first - 1; i >= 0; i-- {
		p, u := g.first+i, i/g.Bucket
		share, begins := 1/float32(i+1), i%g.Bucket == 0
		switch {
		case g.Sort == nil:
			if begins {
				kernel.Axpy(share, da[u*s.e:][:g.hd], sumQ)
			}
			kernel.Axpy(share, db[u*s.e:][:g.hd], sumK)
		case begins:
			kernel.Axpy(share, da[u*s.e:][:g.hd], sumK)
			g.addGrads(p, 1, nil, da[u*s.e+g.hd:][:g.hd])
		}
		g.addGrads(p, 1, sumQ, sumK)
	}
}

// addGrads adds share·q and share·k to the gradients of the query and the key at position p. q or k may be nil.
func (g *bucketHead) addGrads(p int, share float32, q, k []float32) {
	if dq := g.gradients.q; dq != nil && q != nil {
		kernel.Axpy(share, q, dq[p*g.step:][:g.hd])
	}
	if dk := g.gradients.k; dk != nil && k != nil {
		kernel.Axpy(share, k, dk[2*p*g.step:][:g.hd])
	}
}
