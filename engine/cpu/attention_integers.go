package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// Keys and values in int8 are multiplied as integers, page by page. Queries are rounded to 8 bits, relative to the
// largest number of each query. The weights of a page, times the factors of its values, are rounded to 14 bits,
// relative to the largest weight of each query. A page is read and reordered once for all heads and queries of a job.
// Sums of integers are exact and blocks of keys begin at fixed positions, so a query gets the same bits whichever
// queries are computed with it.

// inIntegers reports whether the keys and values of a row are integers.
func (row *attentionRow) inIntegers() bool { return row.pages != nil && row.pages.InIntegers() }

// integerWork is the memory that a job needs.
type integerWork struct {
	queries kernel.RoundedVectors
	tile    kernel.RowTile
	inverse []float32 // factor for the weights of each query
}

var integerPool = sync.Pool{New: func() any { return new(integerWork) }}

// integerRows is roughly the largest number of queries of a job, over all its heads. The scores of more queries do not
// fit in the cache.
const integerRows = 128

// integerHeads returns the number of heads of a job. For a single query, it is as many heads as make about share
// multiply-adds, so that pages are read in the order in which they lie in memory. Otherwise heads that share keys form
// a job if a tile has few queries and there remains work for all cores.
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
	inPlace := whole.rows == 1 || hi-lo == 1 // all results lie at equal distances, so one call can sum them
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

// integerOutput describes where the results of the queries of some heads are stored. Outputs of consecutive heads lie
// head floats apart, those of consecutive queries row floats. Log-sum-exps of consecutive heads lie lseHead floats
// apart, those of the queries of a head side by side.
type integerOutput struct {
	y         []float32
	head, row int
	lse       []float32
	lseHead   int
}

// at returns the outputs of query r of head h.
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
	step := y.row // distance between queries; one call sums all queries, over the heads, that lie at equal distances
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

// endOfKeys returns the end of the heads from h on that share keys, at most hi.
func (a *attention) endOfKeys(h, hi int) int {
	return min(hi, (a.opt.KeyHead(h)+1)*(a.opt.Heads/a.keyHeads))
}

// eachRun calls f for each run of rows that a tile sees and that lies in one page, for each group of heads [h, end)
// that share keys. column is the column of the tile at which the run starts. next is the run that follows, or run
// itself if there is none.
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

// integerRun returns the run of rows from key lo on that head h sees.
func (a *attention) integerRun(x *rowsOfHead, h, lo, hi int) kernel.Run {
	x.head = a.opt.KeyHead(h)
	n, _, rows, at := x.run(lo, hi)
	return kernel.Run{R: rows, I: at, N: n}
}
