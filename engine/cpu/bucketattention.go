package cpu

import (
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// BucketAttention computes each head of a row by itself: first the sort net picks buckets, then the buckets attend one
// by one.
func (eng *Engine) BucketAttention(q, kv *tensor.Tensor, p engine.BucketParams, o engine.BucketOptions,
	r *engine.Rows, caches []*engine.BucketCache) *tensor.Tensor {
	op := take[bucketOp](eng)
	qs, kvs := resize(op.caches[0], len(caches)), resize(op.caches[1], len(caches))
	for i, c := range caches {
		if qs[i], kvs[i] = nil, nil; c != nil {
			qs[i], kvs[i] = c.Q, c.KV
		}
	}
	op.bucketed = bucketed{BucketOptions: o, BucketParams: p, rows: r, precision: eng.precision(),
		q: eng.see(op.q, q, r, qs), kv: eng.see(op.kv, kv, r, kvs), sums: op.sums[:0]}
	s := &op.bucketed
	for _, c := range caches {
		if !eng.Recording {
			s.sums = append(s.sums, summed(c, o.Heads))
		}
	}
	s.hd = q.Dim(-1) / o.Heads
	s.scale = float32(1 / math.Sqrt(float64(s.hd)))
	s.y = eng.like(q)
	s.lse = eng.arena.Floats(r.Total() * o.Heads)
	parallel.For(r.Count()*o.Heads, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			h := s.head(i/o.Heads, i%o.Heads)
			h.sort()
			h.forward()
			h.done()
		}
	})
	s.q.release()
	s.kv.release()
	clear(qs)
	clear(kvs)
	clear(s.sums)
	op.caches = [2][]*engine.RowCache{qs, kvs}
	record := eng.wants(p.Sort, p.NullK, p.NullV)
	record = s.q.wants(eng) || record
	if s.kv.wants(eng) || record {
		eng.push("BucketAttention", op, s.y)
	}
	return s.y
}

// summed returns the sums of all heads of a sequence, or nil without a cache.
func summed(c *engine.BucketCache, heads int) []bucketSums {
	if c == nil {
		return nil
	}
	sums, ok := c.Sums.Private.([]bucketSums)
	if !ok {
		sums = make([]bucketSums, heads)
		c.Sums.Private = sums
	}
	return sums
}

type bucketed struct {
	engine.BucketOptions
	engine.BucketParams
	q, kv     seen
	y         *tensor.Tensor
	rows      *engine.Rows
	lse       []float32      // of each row (heads, l)
	sums      [][]bucketSums // for each row, the sums of its heads so far; none for a row without a cache
	hd        int            // components of a head
	scale     float32
	precision kernel.Precision
}

// columns returns the number of candidates for which the sort net has scores.
func (s *bucketed) columns() int { return s.Sort.Dim(-1) }

// offset returns the position at which the buckets of a head start. Earlier positions see only each other.
func (s *bucketed) offset(head int) int {
	if s.Ahead || head < s.Heads/2 {
		return 0
	}
	return s.Bucket - 1
}

// pick is a picked bucket v and its weight R. An empty bucket has v < 0.
type pick struct {
	v int
	r float32
}

// bucketHead is one head of one row.
type bucketHead struct {
	*bucketed
	i, h         int
	n, l         int // positions that the row sees, and its own
	first, count int // position of the first bucket, number of buckets
	from         int // the first bucket that contains positions of the row itself
	step         int // distance from the query of a position to the next; keys are twice that apart
	gradients    headGrads
	nullK, nullV []float32 // key and value of an empty bucket, (bucket, head_dim)
	sorter       bucketSort
	scratch      *[]float32
}

// headGrads holds the gradients of a head, each nil if it is not wanted: of the row's own queries, of all queries, and
// of all keys and values.
type headGrads struct{ own, q, k, v []float32 }

var bucketHeads = sync.Pool{New: func() any { return new(bucketHead) }}

// head returns head h of row i; done releases its memory.
func (s *bucketed) head(i, h int) *bucketHead {
	buf := getFloats(2 * s.Bucket * s.hd)
	g := bucketHeads.Get().(*bucketHead)
	picks := g.sorter.picks
	*g = bucketHead{bucketed: s, i: i, h: h, l: s.rows.Len(i), first: s.offset(h), step: s.Heads * s.hd, scratch: buf}
	g.sorter.picks = picks
	g.n = s.q.past(i) + g.l
	g.count = (max(g.n-g.first, 0) + s.Bucket - 1) / s.Bucket // the last bucket may be short
	g.from = min(max(g.n-g.l-g.first, 0)/s.Bucket, g.count)
	if !s.Ahead {
		g.nullK, g.nullV = (*buf)[:s.Bucket*s.hd], (*buf)[s.Bucket*s.hd:]
		for i := 0; i < len(g.nullK); i += s.hd {
			copy(g.nullK[i:], s.NullK.Data()[h*s.hd:][:s.hd])
			copy(g.nullV[i:], s.NullV.Data()[h*s.hd:][:s.hd])
		}
	}
	return g
}

func (g *bucketHead) done() {
	putFloats(g.sorter.scratch)
	putFloats(g.scratch)
	g.bucketed, g.gradients = nil, headGrads{}
	bucketHeads.Put(g)
}

// candidates returns the number of buckets from which bucket u picks, including empty ones.
func (g *bucketHead) candidates(u int) int {
	if g.Ahead {
		return g.n / g.Bucket
	}
	return g.Top + u
}

// query returns the query at a position.
func (g *bucketHead) query(position int) []float32 {
	x, _ := g.q.run(g.i, position)
	return x[g.h*g.hd:][:g.hd]
}

// key returns the key at a position.
func (g *bucketHead) key(position int) []float32 {
	x, _ := g.kv.run(g.i, position)
	return x[g.h*g.hd:][:g.hd]
}

// own returns the head's part of x, a tensor like y, at one of the row's own positions.
func (g *bucketHead) own(x []float32, position int) []float32 {
	return x[(g.rows.From(g.i)+position-(g.n-g.l))*g.step+g.h*g.hd:]
}

// keyRun is a contiguous run of keys and values that a bucket sees, in a picked bucket or its own, with their weight. A
// bucket that spans several pages has several runs.
type keyRun struct {
	k, v   []float32
	dk, dv []float32
	step   int // from one key to the next
	n      int
	pick   int // index of the pick, -1 for the bucket itself
	r      float32
}

// queries holds the row's queries in one bucket and the runs of keys that they see, side by side. The runs of their own
// bucket come last.
type queries struct {
	at, rows int // position of the first query
	before   int // positions of the bucket before the first query
	runs     []keyRun
	columns  int
	picked   int // columns of picks
}

// add adds a run.
func (w *queries) add(r keyRun) {
	w.runs = append(w.runs, r)
	w.columns += r.n
	if r.pick >= 0 {
		w.picked += r.n
	}
}

// see adds the n positions from at on to the keys that w sees, in runs with the weight and pick of like.
func (g *bucketHead) see(w *queries, like keyRun, at, n int) {
	for n > 0 {
		r := like
		x, most := g.kv.run(g.i, at)
		r.k, r.v, r.step, r.n = x[g.h*g.hd:], x[g.step+g.h*g.hd:], 2*g.step, min(n, most)
		if g.gradients.k != nil {
			r.dk, r.dv = g.gradients.k[at*r.step:], g.gradients.v[at*r.step:]
		}
		if r.pick >= 0 && g.KeysAsValues {
			r.v, r.dv = r.k, r.dk
		}
		w.add(r)
		at, n = at+r.n, n-r.n
	}
}

// each calls f for the row's queries in every bucket u; u is from-1 for queries before the first bucket.
func (g *bucketHead) each(f func(u int, w *queries)) {
	var buf [2 * (engine.MaxTop + 1)]keyRun
	for u := g.from - 1; u < g.count; u++ {
		lo, hi := g.first+u*g.Bucket, min(g.first+(u+1)*g.Bucket, g.n)
		if u < g.from { // positions before the first bucket
			lo, hi = 0, min(g.first, g.n)
		}
		at := max(lo, g.n-g.l)
		if at >= hi {
			continue
		}
		w := queries{at: at, rows: hi - at, before: at - lo, runs: buf[:0]}
		if u >= g.from {
			for i, p := range g.picksOf(u) {
				if p.v < 0 {
					w.add(keyRun{k: g.nullK, v: g.nullV, step: g.hd, n: g.Bucket, pick: i, r: p.r})
				} else {
					g.see(&w, keyRun{pick: i, r: p.r}, g.first+p.v*g.Bucket, g.Bucket)
				}
			}
		}
		g.see(&w, keyRun{pick: -1, r: 1}, lo, hi-lo)
		f(u, &w)
	}
}

// raw fills s (rows, columns) with q·k.
func (g *bucketHead) raw(s []float32, w *queries) {
	at, q, gemm := 0, g.own(g.q.x.Data(), w.at), g.precision.GemmInline
	for _, r := range w.runs {
		gemm(kernel.Product{Op: kernel.NT, M: w.rows, N: r.n, K: g.hd, A: q, LDA: g.step, B: r.k, LDB: r.step,
			C: s[at:], LDC: w.columns})
		at += r.n
	}
}

// weighColumns multiplies the columns of each picked run by its weight.
func (w *queries) weighColumns(s []float32) {
	at := 0
	for _, r := range w.runs {
		if r.pick < 0 {
			return
		}
		for i := range w.rows {
			kernel.Scale(s[i*w.columns+at:][:r.n], r.r)
		}
		at += r.n
	}
}

// softmax turns scores into weights. Their log-sum-exp is an input if known is true, else a result.
func (g *bucketHead) softmax(s []float32, w *queries, known bool) {
	lse := g.lse[g.rows.From(g.i)*g.Heads+g.h*g.l+w.at-(g.n-g.l):]
	for i := range w.rows {
		row := s[i*w.columns:][:w.columns]
		sees := w.columns
		if !g.Ahead {
			sees = w.picked + w.before + i + 1
		}
		if known {
			kernel.SoftmaxAgain(row[:sees], g.scale, lse[i])
		} else {
			lse[i] = kernel.Softmax(row[:sees], g.scale)
		}
		clear(row[sees:])
	}
}

func (g *bucketHead) forward() {
	g.each(func(_ int, w *queries) {
		buf := getFloats(w.rows * w.columns)
		defer putFloats(buf)
		s := *buf
		g.raw(s, w)
		w.weighColumns(s)
		g.softmax(s, w, false)
		w.weighColumns(s)
		y, at := g.own(g.y.Data(), w.at), 0
		for _, r := range w.runs {
			g.precision.GemmInline(kernel.Product{Op: kernel.NN, M: w.rows, N: g.hd, K: r.n, A: s[at:], LDA: w.columns,
				B: r.v, LDB: r.step, C: y, LDC: g.step, Add: at > 0})
			at += r.n
		}
	})
}
