package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// Keys and values in int8 are multiplied as integers, page by page: queries are rounded to 8 bits of the largest number
// of each, and the weights of a page, times the factors of its values, to 14 bits of the largest of each query. A page
// is read and put in order once for all heads and queries of a job. Sums of integers are exact and blocks of keys begin
// at fixed positions, so that a query gets the same bits whichever queries are computed with it.

// inIntegers reports whether the keys and values of a row are integers.
func (row *attentionRow) inIntegers() bool { return row.pages != nil && row.pages.InIntegers() }

// integerWork is what a job needs of memory.
type integerWork struct {
	queries kernel.RoundedVectors
	tile    kernel.RowTile
	inverse []float32 // what weights are to be multiplied by, of each query
}

var integerPool = sync.Pool{New: func() any { return new(integerWork) }}

// integerRows is about the most queries of a job, those of all its heads: scores of more find no place in the cache.
const integerRows = 128

// integerHeads is the number of heads of a job: of a single query as many as make the given number of multiply-adds, so
// that pages are read in the order in which they lie in memory; else those that share keys, if a tile has few queries,
// and if there is work for all cores.
func (a *attention) integerHeads(row *attentionRow, share int) int {
	group := a.opt.Heads / a.keyHeads
	if a.opt.Blocks != nil { // heads see different keys
		return 1
	}
	if row.l == 1 {
		n := max(1, min(a.opt.Heads, share/(row.keys()*a.hd)))
		if n > group {
			n -= n % group
		}
		return n
	}
	rows := min(row.l, attentionRows)
	n := min(group, max(1, integerRows/rows))
	for group%n > 0 || n > 1 && n*rows*row.keys()*a.hd > share {
		n--
	}
	return n
}

// integers computes the attention of tile i of the heads [lo, hi), block by block of keys.
func (a *attention) integers(row *attentionRow, lo, hi, i int) {
	var spans, part spanBuffer
	whole := a.tile(spans[:], row, lo, i)
	u := integerPool.Get().(*integerWork)
	defer integerPool.Put(u)
	m, hd := (hi-lo)*whole.rows, a.hd
	u.queries.Reset(m, hd)
	for j := range m {
		u.queries.Set(j, a.queries(a.q, row, lo+j/whole.rows, whole.i0+j%whole.rows))
	}
	y := integerOutput{a.outputs(a.y.Data(), row, lo, whole.i0), hd, a.opt.Heads * hd,
		a.lse[row.from*a.opt.Heads+lo*row.l+whole.i0:], row.l}
	if a.opt.Blocks != nil || a.opt.Window > 0 {
		a.integerBlock(y, row, lo, hi, &whole, u)
		return
	}
	inPlace := whole.rows == 1 || hi-lo == 1 // results of all queries lie at equal distances, for sums of all at once
	for b := range row.blocks() {
		w := whole.block(part[:], row, b)
		switch {
		case w.columns <= 0:
			return
		case b == 0 && inPlace:
			a.integerBlock(y, row, lo, hi, &w, u)
			continue
		}
		buf := getFloats(m * (hd + 1))
		more := integerOutput{(*buf)[:m*hd], w.rows * hd, hd, (*buf)[m*hd:], w.rows}
		a.integerBlock(more, row, lo, hi, &w, u)
		for j := range m {
			to, lse := y.at(j/w.rows, j%w.rows)
			from, fromLSE := more.at(j/w.rows, j%w.rows)
			if b == 0 {
				copy(to[:hd], from)
				*lse = *fromLSE
				continue
			}
			*lse = joinSoftmax(to[:hd], *lse, from[:hd], *fromLSE)
		}
		putFloats(buf)
	}
}

// integerOutput is where the results of the queries of some heads go: outputs of a head lie head floats after those of
// the one before, of a query row floats; log-sum-exps of a head lseHead floats, of a query side by side.
type integerOutput struct {
	y         []float32
	head, row int
	lse       []float32
	lseHead   int
}

// at are the outputs of query r of head h.
func (o *integerOutput) at(h, r int) (y []float32, lse *float32) {
	return o.y[h*o.head+r*o.row:], &o.lse[h*o.lseHead+r]
}

// integerBlock sets y to the attention of a tile of the heads [lo, hi) to the keys that it sees.
func (a *attention) integerBlock(y integerOutput, row *attentionRow, lo, hi int, w *attentionTile, u *integerWork) {
	n := w.columns
	buf := getFloats((hi - lo) * w.rows * n)
	defer putFloats(buf)
	scores := func(h int) []float32 { return (*buf)[(h-lo)*w.rows*n:] }
	keys, values := a.head(row, 0, 0)
	a.eachRun(&keys, lo, hi, w, func(h, end, column int, run, next kernel.Run) {
		m := (end - h) * w.rows
		u.tile.Keys(run, next, m)
		u.tile.Dots(&u.queries, (h-lo)*w.rows, m, scores(h)[column:], n)
	})
	u.inverse = resize(u.inverse, (hi-lo)*w.rows)
	for h := lo; h < hi; h++ {
		a.softmax(scores(h), row, h, w, y.lse[(h-lo)*y.lseHead:], u.inverse[(h-lo)*w.rows:], false)
		a.dropWeights(scores(h), row, h, w)
	}
	step := y.row // from query to query, of as many heads as lie at equal distances
	if w.rows == 1 {
		step = y.head
	}
	together := func(h, end int) int {
		if y.head == w.rows*step {
			return end - h
		}
		return 1
	}
	several := func(h, end int, f func(h, m int, y []float32)) {
		heads := together(h, end)
		for ; h < end; h += heads {
			f(h, heads*w.rows, y.y[(h-lo)*y.head:])
		}
	}
	a.eachRun(&values, lo, hi, w, func(h, end, column int, run, next kernel.Run) {
		u.tile.Values(run, next, together(h, end)*w.rows)
		several(h, end, func(h, m int, y []float32) {
			u.tile.Sums(m, scores(h)[column:], n, y, step, column > 0)
		})
	})
	for h := lo; h < hi; {
		end := a.endOfKeys(h, hi)
		several(h, end, func(h, m int, y []float32) { u.tile.InOrder(m, y, step, u.inverse[(h-lo)*w.rows:]) })
		h = end
	}
}

// endOfKeys is the end of the heads from h on that share keys, hi at most.
func (a *attention) endOfKeys(h, hi int) int {
	return min(hi, (a.opt.KeyHead(h)+1)*(a.opt.Heads/a.keyHeads))
}

// eachRun calls f for each run of rows that a tile sees and that lies in one page, and there for the heads [h, end) of
// each of their keys. The rows stand from the given column of the tile on. next are those that follow, if any.
func (a *attention) eachRun(x *rowsOfHead, lo, hi int, w *attentionTile,
	f func(h, end, column int, run, next kernel.Run)) {
	column := 0
	for _, s := range w.spans {
		run := a.integerRun(x, lo, s.Lo, s.Hi)
		for h, at := lo, s.Lo; at < s.Hi; {
			end, follows, next := a.endOfKeys(h, hi), at, run
			first := end
			if end == hi {
				first, follows = lo, at+run.N
			}
			if follows < s.Hi {
				next = a.integerRun(x, first, follows, s.Hi)
			}
			f(h, end, column, run, next)
			h, column, at, run = first, column+follows-at, follows, next
		}
	}
}

// integerRun is the run from key lo on that head h sees.
func (a *attention) integerRun(x *rowsOfHead, h, lo, hi int) kernel.Run {
	x.head = a.opt.KeyHead(h)
	n, _, rows, at := x.run(lo, hi)
	return kernel.Run{R: rows, I: at, N: n}
}
