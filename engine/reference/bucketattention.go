package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// BucketAttention is attention of buckets of positions to their own and to a few others (arXiv:2002.11296), head by
// head, with s = 1/√head_dim. Query i of bucket u sees, in this order, the buckets that u picked, with the weight R_r
// of the pick, and the positions of its own bucket (causal: up to i) with R = 1:
//
//	S[j] = s·R_j·q·k_j,   P = softmax(S),   y = Σ_j R_j·P_j·v_j
//
// bucketHead.sort makes the picks of a bucket. Backward:
//
//	dP_j = R_j·dy·v_j,   dS_j = P_j·(dP_j - Σ_k P_k·dP_k)
//	dv_j += R_j·P_j·dy,   dq += s·R_j·dS_j·k_j,   dk_j += s·R_j·dS_j·q,   dR_j = s·dS_j·q·k_j + P_j·dy·v_j
func (eng *Engine) BucketAttention(q, kv *tensor.Tensor, p engine.BucketParams, o engine.BucketOptions,
	r *engine.Rows, caches []*engine.BucketCache) *tensor.Tensor {
	qCaches, kvCaches := make([]*engine.RowCache, len(caches)), make([]*engine.RowCache, len(caches))
	for i, c := range caches {
		if c != nil {
			qCaches[i], kvCaches[i] = c.Q, c.KV
		}
	}
	qs, kvs := eng.see(q, r, qCaches), eng.see(kv, r, kvCaches)
	y := eng.like(q)
	// each calls f for every head of every row, with the position of the row's first query in its sequence.
	each := func(f func(row, h, past int)) {
		for row := range r.Count() {
			for h := range o.Heads {
				f(row, h, qs[row].Dim(0)-r.Len(row))
			}
		}
	}
	d, hd := q.Dim(-1), q.Dim(-1)/o.Heads
	var heads []*bucketHead
	each(func(row, h, past int) {
		s := newBucketHead(eng, qs[row], kvs[row], p, o, h)
		s.sort()
		for t := range r.Len(row) {
			s.attend(past+t, eng.values(y)[(r.From(row)+t)*d+h*hd:][:hd])
		}
		heads = append(heads, s)
	})
	eng.record("BucketAttention", list{y}, append(append(list{p.Sort, p.NullK, p.NullV}, qs...), kvs...), func() {
		each(func(row, h, past int) {
			s := heads[row*o.Heads+h]
			s.startGradients(eng)
			for t := range r.Len(row) {
				s.attendGrad(past+t, eng.gradOf(y)[(r.From(row)+t)*d+h*hd:][:hd])
			}
			s.sortGrad()
		})
	})
	return y
}

// bucketHead is one head of one row, over the n positions that the row sees: those of the cache and its own.
type bucketHead struct {
	o                     engine.BucketOptions
	params                engine.BucketParams
	qt, kvt               *tensor.Tensor
	h, n, hd              int
	first                 int         // position at which bucket 0 starts; earlier positions see only themselves
	q, k, v               [][]float64 // by position
	dq, dk, dv            [][]float64
	nullK, nullV          []float64 // of empty buckets
	dNullK, dNullV        []float64
	w, dw                 []float64 // of the sort net, (2·head_dim, columns); nil for comparing
	summaries, compared   [][]float64
	dSummaries, dCompared [][]float64
	scores                [][]float64 // of the candidates of each bucket, before the softmax
	picks                 [][]bucketPick
	seen                  map[int][]bucketKey // what query t sees, see keysOf
	weights               map[int][]float64   // P of query t
}

// bucketPick is a picked candidate: bucket v, negative for an empty one. Its R is p[c], where p is the softmax over the
// candidates that were left.
type bucketPick struct {
	v, c int
	p    []float64
	dr   float64
}

// bucketKey is a key that a query sees: at is its position, negative for the key of an empty bucket. pick is the pick
// through which the query sees it, nil for a key of its own bucket.
type bucketKey struct {
	at   int
	pick *bucketPick
}

func newBucketHead(eng *Engine, q, kv *tensor.Tensor, p engine.BucketParams, o engine.BucketOptions,
	h int) *bucketHead {
	d := q.Dim(-1)
	s := &bucketHead{o: o, params: p, qt: q, kvt: kv, h: h, n: q.Dim(0), hd: d / o.Heads,
		seen: map[int][]bucketKey{}, weights: map[int][]float64{}}
	if !o.Ahead {
		s.nullK, s.nullV = eng.values(p.NullK)[h*s.hd:][:s.hd], eng.values(p.NullV)[h*s.hd:][:s.hd]
		if h >= o.Heads/2 {
			s.first = o.Bucket - 1
		}
	}
	if p.Sort != nil {
		s.w = s.net(eng.values(p.Sort))
	}
	s.q, s.k, s.v = s.rows(eng.values(q), d, 0), s.rows(eng.values(kv), 2*d, 0), s.rows(eng.values(kv), 2*d, d)
	return s
}

// rows returns the head's parts of the positions in x, whose rows have the given width.
func (s *bucketHead) rows(x []float64, width, at int) (out [][]float64) {
	for t := range s.n {
		out = append(out, x[t*width+at+s.h*s.hd:][:s.hd])
	}
	return out
}

// net returns the head's part of the sort net.
func (s *bucketHead) net(w []float64) []float64 {
	size := 2 * s.hd * s.columns()
	return w[s.h*size:][:size]
}

func (s *bucketHead) columns() int { return s.params.Sort.Dim(-1) }

func (s *bucketHead) startGradients(eng *Engine) {
	d := s.o.Heads * s.hd
	s.dq = s.rows(eng.gradOf(s.qt), d, 0)
	dkv := eng.gradOf(s.kvt)
	s.dk, s.dv = s.rows(dkv, 2*d, 0), s.rows(dkv, 2*d, d)
	if !s.o.Ahead {
		s.dNullK, s.dNullV = eng.gradOf(s.params.NullK)[s.h*s.hd:][:s.hd], eng.gradOf(s.params.NullV)[s.h*s.hd:][:s.hd]
	}
	if s.w != nil {
		s.dw = s.net(eng.gradOf(s.params.Sort))
	}
}

// keysOf lists the keys that query t sees.
func (s *bucketHead) keysOf(t int) (keys []bucketKey) {
	from, to := 0, t+1
	if t >= s.first {
		u := (t - s.first) / s.o.Bucket
		for r := range s.picks[u] {
			p := &s.picks[u][r]
			for j := range s.o.Bucket {
				at := -1
				if p.v >= 0 {
					at = s.first + p.v*s.o.Bucket + j
				}
				keys = append(keys, bucketKey{at, p})
			}
		}
		from = s.first + u*s.o.Bucket
		if s.o.Ahead {
			to = from + s.o.Bucket
		}
	}
	for at := from; at < to; at++ {
		keys = append(keys, bucketKey{at, nil})
	}
	return keys
}

// key returns a key that a query sees, its value, and R.
func (s *bucketHead) key(x bucketKey) (k, v []float64, r float64) {
	switch {
	case x.pick == nil:
		return s.k[x.at], s.v[x.at], 1
	case x.at < 0:
		return s.nullK, s.nullV, x.pick.p[x.pick.c]
	case s.o.KeysAsValues:
		return s.k[x.at], s.k[x.at], x.pick.p[x.pick.c]
	}
	return s.k[x.at], s.v[x.at], x.pick.p[x.pick.c]
}

// gradients returns the gradients of a key and its value.
func (s *bucketHead) gradients(x bucketKey) (dk, dv []float64) {
	switch {
	case x.at < 0:
		return s.dNullK, s.dNullV
	case x.pick != nil && s.o.KeysAsValues:
		return s.dk[x.at], s.dk[x.at]
	}
	return s.dk[x.at], s.dv[x.at]
}

func (s *bucketHead) attend(t int, y []float64) {
	keys := s.keysOf(t)
	p := make([]float64, len(keys))
	for j, x := range keys {
		k, _, r := s.key(x)
		p[j] = r * dot(s.q[t], k) / math.Sqrt(float64(s.hd))
	}
	softmax(p)
	for j, x := range keys {
		_, v, r := s.key(x)
		for c := range y {
			y[c] += r * p[j] * v[c]
		}
	}
	s.seen[t], s.weights[t] = keys, p
}

func (s *bucketHead) attendGrad(t int, dy []float64) {
	keys, p, scale := s.seen[t], s.weights[t], 1/math.Sqrt(float64(s.hd))
	dp, mean := make([]float64, len(keys)), 0.0
	for j, x := range keys {
		_, v, r := s.key(x)
		dp[j] = r * dot(dy, v)
		mean += p[j] * dp[j]
	}
	for j, x := range keys {
		k, v, r := s.key(x)
		dk, dv := s.gradients(x)
		ds := p[j] * (dp[j] - mean)
		if x.pick != nil {
			x.pick.dr += scale*ds*dot(s.q[t], k) + p[j]*dot(dy, v)
		}
		for c := range dy {
			s.dq[t][c] += scale * r * ds * k[c]
			dk[c] += scale * r * ds * s.q[t][c]
			dv[c] += r * p[j] * dy[c]
		}
	}
}

// softmax replaces x by e^x/Σe^x.
func softmax(x []float64) {
	largest, sum := math.Inf(-1), 0.0
	for _, v := range x {
		largest = max(largest, v)
	}
	for i, v := range x {
		x[i] = math.Exp(v - largest)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}
