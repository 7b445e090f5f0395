package cpu

import (
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// SinkhornAttention is attention of buckets of queries to their own bucket and to the Top others that a sort net scores highest
// ("Sparse Sinkhorn Attention", arXiv:2002.11296, in the deterministic form of the official code). With R the softmax weight of a
// picked bucket, which its keys and values are multiplied by,
//
//	y = softmax( Q [R₁K₁, …, R_Top·K_Top, K]ᵀ/√head_dim + mask ) [R₁V₁, …, R_Top·V_Top, V]
//
// for q, y (b, l, d) and kv (b, l, 2d: keys, then values), with the positions in cache (nil for none) before those of the chunk.
// Causal buckets pick earlier ones, by summaries of what came before; those of the second half of the heads begin Bucket-1
// positions later, so that what is far in one half is near in the other. Looking ahead there is no cache, and l is a multiple of
// Bucket.
func (eng *Engine) SinkhornAttention(q, kv *tensor.Tensor, cache *engine.SinkhornCache, p engine.SinkhornParams, o engine.SinkhornOptions) *tensor.Tensor {
	b, l, d := q.Dim(0), q.Dim(1), q.Dim(2)
	n := l
	if cache != nil {
		eng.AppendRows(cache.Q, q)
		eng.AppendRows(cache.KV, kv)
		q, kv, n = cache.Q.X, cache.KV.X, cache.Q.Len
	}
	s := sinkhorn{SinkhornOptions: o, SinkhornParams: p, q: q, kv: kv, n: n, l: l, hd: d / o.Heads, precision: eng.precision()}
	if cache != nil && !eng.Recording {
		s.sums = summed(cache.Sums, b*o.Heads)
	}
	s.scale = float32(1 / math.Sqrt(float64(s.hd)))
	s.y = eng.New(b, l, d)
	s.lse = eng.arena.Floats(b * o.Heads * l)
	parallel.For(b*o.Heads, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			h := s.head(i/o.Heads, i%o.Heads)
			h.sort()
			h.forward()
			h.done()
		}
	})
	if eng.wants(q, kv, p.Sort, p.NullK, p.NullV) {
		op := take[sinkhornOp](eng)
		op.sinkhorn = s
		eng.push(op)
	}
	return s.y
}

// summed returns the sums of all heads of all sequences.
func summed(c *engine.SinkhornSums, heads int) []bucketSums {
	sums, ok := c.Private.([]bucketSums)
	if !ok {
		sums = make([]bucketSums, heads)
		c.Private = sums
	}
	return sums
}

type sinkhorn struct {
	engine.SinkhornOptions
	engine.SinkhornParams
	q, kv, y  *tensor.Tensor
	lse       []float32    // (b, heads, l)
	sums      []bucketSums // of every head of every sequence so far, nil to begin anew
	n, l, hd  int          // positions, those of the chunk, components of a head
	scale     float32
	precision kernel.Precision
}

// columns is how many candidates the sort net knows.
func (s *sinkhorn) columns() int { return s.Sort.Dim(s.Sort.Dims() - 1) }

// offset is where the buckets of a head begin. What lies before sees only itself.
func (s *sinkhorn) offset(head int) int {
	if s.Ahead || head < s.Heads/2 {
		return 0
	}
	return s.Bucket - 1
}

// buckets is the number of buckets of a head, the last of which may be short.
func (s *sinkhorn) buckets(head int) int {
	return (max(s.n-s.offset(head), 0) + s.Bucket - 1) / s.Bucket
}

// candidates is how many buckets, the empty ones counted, bucket u picks from.
func (s *sinkhorn) candidates(u int) int {
	if s.Ahead {
		return s.n / s.Bucket
	}
	return s.Top + u
}

// pick is a bucket that another one picked and its weight R; v < 0 is an empty one.
type pick struct {
	v int
	r float32
}

// sinkhornHead is one head of one sequence.
type sinkhornHead struct {
	*sinkhorn
	b, h         int
	first, count int // position of the first bucket, number of buckets
	from         int // the first bucket with queries in the chunk
	q, k, v      []float32
	dq, dk, dv   []float32 // gradients beside them, nil where none are wanted
	qStep, kStep int
	nullK, nullV []float32 // an empty bucket, (bucket, head_dim)
	sorter       bucketSort
	scratch      *[]float32
}

var sinkhornHeads = sync.Pool{New: func() any { return new(sinkhornHead) }}

// head returns a head of a sequence; done gives its memory back.
func (s *sinkhorn) head(b, h int) *sinkhornHead {
	d := s.Heads * s.hd
	buf := getFloats(2 * s.Bucket * s.hd)
	g := sinkhornHeads.Get().(*sinkhornHead)
	picks := g.sorter.picks
	*g = sinkhornHead{sinkhorn: s, b: b, h: h, first: s.offset(h), count: s.buckets(h), qStep: d, kStep: 2 * d, scratch: buf}
	g.sorter.picks = picks
	g.from = max(s.n-s.l-g.first, 0) / s.Bucket
	g.from = min(g.from, g.count)
	g.q = s.q.Data()[b*s.q.Dim(1)*d+h*s.hd:]
	kv := s.kv.Data()[b*s.kv.Dim(1)*2*d+h*s.hd:]
	g.k, g.v = kv, kv[d:]
	if !s.Ahead {
		g.nullK, g.nullV = (*buf)[:s.Bucket*s.hd], (*buf)[s.Bucket*s.hd:]
		for i := 0; i < len(g.nullK); i += s.hd {
			copy(g.nullK[i:], s.NullK.Data()[h*s.hd:][:s.hd])
			copy(g.nullV[i:], s.NullV.Data()[h*s.hd:][:s.hd])
		}
	}
	return g
}

func (g *sinkhornHead) done() {
	putFloats(g.sorter.scratch)
	putFloats(g.scratch)
	sinkhornHeads.Put(g)
}

// keyRun is a run of keys and values that a bucket sees, with their weight: those of a picked bucket, or its own.
type keyRun struct {
	k, v   []float32
	dk, dv []float32
	step   int // from one key to the next
	n      int
	r      float32
}

// run is the run of a bucket that was picked.
func (g *sinkhornHead) run(p pick) keyRun {
	if p.v < 0 {
		return keyRun{k: g.nullK, v: g.nullV, step: g.hd, n: g.Bucket, r: p.r}
	}
	w := g.own(g.first+p.v*g.Bucket, g.Bucket)
	if w.r = p.r; g.KeysAsValues {
		w.v, w.dv = w.k, w.dk
	}
	return w
}

// own is the run of n positions from the given one on.
func (g *sinkhornHead) own(at, n int) keyRun {
	w := keyRun{k: g.k[at*g.kStep:], v: g.v[at*g.kStep:], step: g.kStep, n: n, r: 1}
	if g.dk != nil {
		w.dk, w.dv = g.dk[at*g.kStep:], g.dv[at*g.kStep:]
	}
	return w
}

// queries are rows of one bucket that are asked for, and what they see: runs side by side, the last of which is their own bucket's,
// causal or not.
type queries struct {
	at, rows int // position of the first
	before   int // rows of the bucket before them
	runs     []keyRun
	columns  int
}

// each calls f for what is asked for of every bucket u; u is from-1 for what lies before the first one.
func (g *sinkhornHead) each(f func(u int, w *queries)) {
	var buf [engine.MaxTop + 1]keyRun
	for u := g.from - 1; u < g.count; u++ {
		lo, hi := g.first+u*g.Bucket, min(g.first+(u+1)*g.Bucket, g.n)
		if u < g.from { // what lies before the first bucket
			lo, hi = 0, min(g.first, g.n)
		}
		at := max(lo, g.n-g.l)
		if at >= hi {
			continue
		}
		w := queries{at: at, rows: hi - at, before: at - lo, runs: buf[:0]}
		if u >= g.from {
			for _, p := range g.picksOf(u) {
				w.runs = append(w.runs, g.run(p))
			}
		}
		w.runs = append(w.runs, g.own(lo, hi-lo))
		for _, r := range w.runs {
			w.columns += r.n
		}
		f(u, &w)
	}
}

// raw fills s (rows, columns) with q·k.
func (g *sinkhornHead) raw(s []float32, w *queries) {
	at := 0
	for _, r := range w.runs {
		g.precision.GemmInline(kernel.Product{
			Op: kernel.NT, M: w.rows, N: r.n, K: g.hd, A: g.q[w.at*g.qStep:], LDA: g.qStep, B: r.k, LDB: r.step,
			C: s[at:], LDC: w.columns,
		})
		at += r.n
	}
}

// weigh multiplies the columns of each run by its weight.
func (w *queries) weigh(s []float32) {
	at := 0
	for _, r := range w.runs[:len(w.runs)-1] {
		for i := range w.rows {
			kernel.Scale(s[i*w.columns+at:][:r.n], r.r)
		}
		at += r.n
	}
}

// softmax turns scores into weights, given or making their log-sum-exp.
func (g *sinkhornHead) softmax(s []float32, w *queries, known bool) {
	at := (g.b*g.Heads+g.h)*g.l + w.at - (g.n - g.l)
	own := w.columns - w.runs[len(w.runs)-1].n
	for i := range w.rows {
		row := s[i*w.columns:][:w.columns]
		sees := w.columns
		if !g.Ahead {
			sees = own + w.before + i + 1
		}
		if known {
			kernel.SoftmaxAgain(row[:sees], g.scale, g.lse[at+i])
		} else {
			g.lse[at+i] = kernel.Softmax(row[:sees], g.scale)
		}
		clear(row[sees:])
	}
}

// rowsOf are the rows of x (b, l, d) that belong to w.
func (g *sinkhornHead) rowsOf(x []float32, w *queries) []float32 {
	return x[(g.b*g.l+w.at-(g.n-g.l))*g.qStep+g.h*g.hd:]
}

func (g *sinkhornHead) forward() {
	g.each(func(_ int, w *queries) {
		buf := getFloats(w.rows * w.columns)
		defer putFloats(buf)
		s := *buf
		g.raw(s, w)
		w.weigh(s)
		g.softmax(s, w, false)
		w.weigh(s)
		y, at := g.rowsOf(g.y.Data(), w), 0
		for _, r := range w.runs {
			g.precision.GemmInline(kernel.Product{
				Op: kernel.NN, M: w.rows, N: g.hd, K: r.n, A: s[at:], LDA: w.columns, B: r.v, LDB: r.step,
				C: y, LDC: g.qStep, Add: at > 0,
			})
			at += r.n
		}
	})
}
