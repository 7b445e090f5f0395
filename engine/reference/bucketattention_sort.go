package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
)

// sort makes the picks of every bucket. Bucket u scores candidate c by x[u, c], in the official code's four forms:
//
//	comparing, causal:  x = q̄_u · Σ_{i in c} k̄_i / √head_dim,  q̄_i, k̄_i the means up to position i,
//	                    q̄_u at the first one of u
//	comparing, ahead:   x = mean(q in u) · mean(k in c) / √head_dim
//	linear, causal:     x = leakyReLU([k̄_u, k_u] W),  at the first position of u
//	linear, ahead:      x = ReLU([Σ q in u, Σ k in u] W)
//
// If causal, the first Top candidates are empty buckets (score 0 when comparing), and the others are the buckets before
// u. Then, Top times, the candidate with the largest weight R under softmax(x/temperature) is picked and taken out. The
// choice has no gradient, but R has.
func (s *bucketHead) sort() {
	s.summarize()
	for u := range s.buckets() {
		x := make([]float64, s.candidates(u))
		for c := range x {
			switch empties := s.empties(); {
			case s.w == nil && c >= empties:
				x[c] = dot(s.summaries[u], s.compared[c-empties]) / math.Sqrt(float64(s.hd))
			case s.w != nil:
				if x[c] = s.linear(u, c); x[c] < 0 {
					x[c] *= s.leak()
				}
			}
		}
		s.scores = append(s.scores, x)
		s.picks = append(s.picks, s.pick(x))
	}
}

func (s *bucketHead) buckets() int { return (max(s.n-s.first, 0) + s.o.Bucket - 1) / s.o.Bucket }

// candidates returns the number of buckets, including empty ones, from which bucket u picks.
func (s *bucketHead) candidates(u int) int {
	if s.o.Ahead {
		return s.n / s.o.Bucket
	}
	return s.o.Top + u
}

func (s *bucketHead) empties() int {
	if s.o.Ahead {
		return 0
	}
	return s.o.Top
}

// leak returns the slope of the linear sort net below zero.
func (s *bucketHead) leak() float64 {
	if s.o.Ahead {
		return 0
	}
	return 0.01
}

// temperature returns the temperature of the softmax. In the official code it is always 1 for comparing ahead.
func (s *bucketHead) temperature() float64 {
	if s.o.Ahead && s.w == nil {
		return 1
	}
	return float64(s.o.Temperature)
}

// linear returns [summary of u] W at candidate c.
func (s *bucketHead) linear(u, c int) (sum float64) {
	for e, v := range s.summaries[u] {
		sum += v * s.w[e*s.columns()+c]
	}
	return sum
}

// pick takes out the candidate with the largest weight, Top times.
func (s *bucketHead) pick(scores []float64) (picks []bucketPick) {
	taken := map[int]bool{}
	for range s.o.Top {
		p := make([]float64, len(scores))
		for c, x := range scores {
			if p[c] = x / s.temperature(); taken[c] {
				p[c] = math.Inf(-1)
			}
		}
		softmax(p)
		c := engine.Heaviest(p)
		taken[c] = true
		picks = append(picks, bucketPick{v: c - s.empties(), c: c, p: p})
	}
	return picks
}

// summarize computes the summaries by which the buckets are scored, and when comparing also those that they are
// compared with.
func (s *bucketHead) summarize() {
	s.eachSummary(func(u int, parts []summaryPart) {
		for _, p := range parts {
			from := s.q
			if p.ofKeys {
				from = s.k
			}
			for len(*p.to(s)) <= u {
				*p.to(s) = append(*p.to(s), make([]float64, s.summaryLen()))
			}
			for c := range s.hd {
				(*p.to(s))[u][p.at+c] += p.factor * from[p.position][c]
			}
		}
	})
}

// summaryLen returns the number of components of a summary.
func (s *bucketHead) summaryLen() int {
	if s.w != nil {
		return 2 * s.hd
	}
	return s.hd
}

// summaryPart is a term of a summary: factor times a query or key.
type summaryPart struct {
	ofKeys   bool
	compared bool // belongs to a summary that others are compared with
	position int
	at       int // index of the first component
	factor   float64
}

func (p summaryPart) to(s *bucketHead) *[][]float64 {
	if p.compared {
		return &s.compared
	}
	return &s.summaries
}

// eachSummary calls f with the terms of the summaries of every bucket.
func (s *bucketHead) eachSummary(f func(u int, parts []summaryPart)) {
	for u := range s.buckets() {
		begin := s.first + u*s.o.Bucket
		end := min(begin+s.o.Bucket, s.n)
		var parts []summaryPart
		switch {
		case s.o.Ahead:
			for t := begin; t < end; t++ {
				query := summaryPart{position: t, factor: 1}
				key := summaryPart{ofKeys: true, position: t, at: s.hd, factor: 1}
				if s.w == nil {
					share := 1 / float64(s.o.Bucket)
					query.factor = share
					key = summaryPart{ofKeys: true, compared: true, position: t, factor: share}
				}
				parts = append(parts, query, key)
			}
		case s.w == nil:
			parts = append(parts, s.mean(begin, summaryPart{})...)
			for t := begin; t < end; t++ {
				parts = append(parts, s.mean(t, summaryPart{ofKeys: true, compared: true})...)
			}
		default:
			key := summaryPart{ofKeys: true, position: begin, at: s.hd, factor: 1}
			parts = append(s.mean(begin, summaryPart{ofKeys: true}), key)
		}
		f(u, parts)
	}
}

// mean returns the terms of the mean of the positions up to t.
func (s *bucketHead) mean(t int, like summaryPart) (parts []summaryPart) {
	for i := s.first; i <= t; i++ {
		like.position, like.factor = i, 1/float64(t-s.first+1)
		parts = append(parts, like)
	}
	return parts
}

// sortGrad propagates the gradients of the picks' weights to queries, keys and the sort net. With p the softmax over
// the candidates, of which c was picked: dx[j] += dR/temperature · p[c]·([j = c] - p[j]).
func (s *bucketHead) sortGrad() {
	for range s.summaries {
		s.dSummaries = append(s.dSummaries, make([]float64, s.summaryLen()))
		s.dCompared = append(s.dCompared, make([]float64, s.summaryLen()))
	}
	for u, x := range s.scores {
		dx := make([]float64, len(x))
		for i := range s.picks[u] {
			pick := &s.picks[u][i]
			for j, p := range pick.p {
				dx[j] -= pick.dr / s.temperature() * pick.p[pick.c] * p
			}
			dx[pick.c] += pick.dr / s.temperature() * pick.p[pick.c]
			pick.dr = 0
		}
		for c, g := range dx {
			switch empties := s.empties(); {
			case s.w == nil && c >= empties:
				for e := range s.hd {
					s.dSummaries[u][e] += g * s.compared[c-empties][e] / math.Sqrt(float64(s.hd))
					s.dCompared[c-empties][e] += g * s.summaries[u][e] / math.Sqrt(float64(s.hd))
				}
			case s.w != nil:
				if x[c] <= 0 {
					g *= s.leak()
				}
				for e := range s.summaries[u] {
					s.dSummaries[u][e] += g * s.w[e*s.columns()+c]
					s.dw[e*s.columns()+c] += g * s.summaries[u][e]
				}
			}
		}
	}
	s.eachSummary(func(u int, parts []summaryPart) {
		for _, p := range parts {
			to, g := s.dq, s.dSummaries[u]
			if p.ofKeys {
				to = s.dk
			}
			if p.compared {
				g = s.dCompared[u]
			}
			for c := range s.hd {
				to[p.position][c] += p.factor * g[p.at+c]
			}
		}
	})
}
