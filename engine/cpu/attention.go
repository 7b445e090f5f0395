package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// attentionRows is the number of queries of a tile. Of the L×L matrix, only the scores of one tile are in memory.
const attentionRows = 64

// Attention computes scores in tiles of 64 queries, and over long sequences in blocks of 3072 keys. Backward computes
// them again from their log-sum-exp (as in FlashAttention, arXiv:2205.14135). Each row has its own tiles and blocks,
// and reads the pages of its cache in place, unless the tape records.
func (eng *Engine) Attention(qkv *tensor.Tensor, r *engine.Rows, caches []*engine.KVCache, o engine.AttentionOptions,
	drop uint64) *tensor.Tensor {
	op := take[attentionOp](eng)
	a := &op.attention
	*a = attention{qkv: qkv, opt: o, rows: r, each: resize(a.each, r.Count()), hd: qkv.Dim(-1) / o.Packed(),
		keyHeads: o.KeyHeads(), precision: eng.precision(), work: a.work}
	a.scale = float32(o.ScaleOf(a.hd))
	d, kd := o.Heads*a.hd, a.keyHeads*a.hd
	record := eng.wants(qkv)
	for i := range a.each {
		row := &a.each[i]
		*row = attentionRow{index: i, from: r.From(i), l: r.Len(i), start: r.Start(i)}
		if i < len(caches) && caches[i] != nil {
			a.open(eng, row, caches[i])
			record = eng.wants(row.pastK, row.pastV) || record
		} else {
			row.alone, a.alone = a.alone, a.alone+row.l*kd
		}
	}
	a.q, a.k = eng.arena.Floats(r.Total()*d), eng.arena.Floats(a.alone)
	if a.v = a.k; a.kinds() == 2 {
		a.v = eng.arena.Floats(a.alone)
	}
	for i := range a.each {
		if row := &a.each[i]; row.pages == nil && row.k == nil {
			row.k, row.v = a.k[row.alone:][:row.l*kd], a.v[row.alone:][:row.l*kd]
		}
	}
	a.unpack()
	if r.Trains() && o.Dropout > 0 {
		a.drop, a.dropout = newMask(o.Dropout, 0), drop
	}
	a.y = eng.New(r.Total(), d)
	a.lse = eng.arena.Floats(r.Total() * o.Heads)
	a.forward(eng)
	for i := range a.each {
		if row := &a.each[i]; row.pages != nil {
			row.pages.Len += row.l
			row.pages.Keep(o.Remembered(row.pages.Len))
			row.pages = nil
		}
	}
	if record {
		made := eng.push("Attention", op, a.y)
		for i := range a.each {
			if made.add(a.each[i].newK); a.kinds() == 2 {
				made.add(a.each[i].newV)
			}
		}
	}
	return a.y
}

type attention struct {
	qkv, y    *tensor.Tensor
	rows      *engine.Rows
	each      []attentionRow
	q, lse    []float32 // of each row (heads, l, head_dim), rotated, and (heads, l)
	k, v      []float32 // of rows without a cache
	alone     int       // number of positions of rows without a cache
	opt       engine.AttentionOptions
	hd        int
	keyHeads  int // number of heads of keys and values
	scale     float32
	precision kernel.Precision
	drop      mask
	dropout   uint64 // number of the dropout
	work      work
}

// attentionRow holds the keys and values that one row sees. They lie in pages, or in k and v.
type attentionRow struct {
	index, from, l int
	forget         int // positions at the front of the cache that no query sees
	past           int // positions in the cache after the forgotten ones
	start          int // position of the first key
	pages          *engine.KVCache
	k, v           []float32      // (key heads, past+l, head_dim), rotated
	newK, newV     *tensor.Tensor // k and v as tensors of the tape, if there is a cache
	pastK, pastV   *tensor.Tensor // those in the cache before the row; the same tensor twice if the values are the keys
	alone          int            // first position among the positions of rows without a cache
	panels         int            // where the panels of the current block of keys start
	together       int            // number of heads that step or integers computes together
}

// kinds returns 2 for keys and values, or 1 if the keys are also the values.
func (a *attention) kinds() int { return a.opt.Kinds() }

// keys returns the number of keys.
func (row *attentionRow) keys() int { return row.past + row.l }

// open makes space for a row's positions after those in its cache: in the cache's pages, or, if the tape records, in
// new tensors.
func (a *attention) open(eng *Engine, row *attentionRow, cache *engine.KVCache) {
	seen := a.opt.Remembered(cache.Len)
	if !eng.Recording || cache.Rounded != nil {
		cache.Keep(seen)
		cache.Reserve(row.start, row.l, a.keyHeads, a.hd)
		row.past, row.pages = cache.Len, cache
		row.start -= row.past
		return
	}
	row.forget, row.past = cache.Len-seen, seen
	row.start -= row.past
	own := func(which int) *tensor.Tensor {
		x := eng.New(a.keyHeads, row.keys(), a.hd)
		cache.CopyTo(x, which, row.forget, row.past)
		return x
	}
	row.pastK, row.newK = cache.K, own(0)
	kept := engine.KVCache{K: row.newK, Len: row.keys(), KeysAsValues: a.opt.KeysAsValues}
	if row.pastV, row.newV = row.pastK, row.newK; a.kinds() == 2 {
		row.pastV, row.newV = cache.V, own(1)
		kept.V = row.newV
	}
	row.k, row.v = row.newK.Data(), row.newV.Data()
	*cache = kept
}

// queries returns the part of q, or of its gradient, from query i of a head on.
func (a *attention) queries(q []float32, row *attentionRow, h, i int) []float32 {
	return q[row.from*a.opt.Heads*a.hd+(h*row.l+i)*a.hd:]
}

// outputs returns the part of y, or of its gradient, from position i of a head on; rows are heads·head_dim apart.
func (a *attention) outputs(y []float32, row *attentionRow, h, i int) []float32 {
	return y[(row.from+i)*a.opt.Heads*a.hd+h*a.hd:]
}

// unpack splits qkv into heads, rotates queries and keys to their positions and stores keys and values after the past.
func (a *attention) unpack() {
	heads, keyHeads, hd, width := a.opt.Heads, a.keyHeads, a.hd, a.opt.Packed()*a.hd
	overRows(a.rows, rowGrain(width), func(index, lo, hi int) {
		row := &a.each[index]
		for i := lo; i < hi; i++ {
			x := a.qkv.Data()[(row.from+i)*width:][:width]
			turnQ, turnK := turns(a.opt.Rotary, row.start+row.past+i)
			for h := range heads {
				q := a.queries(a.q, row, h, i)[:hd]
				copy(q, x[h*hd:])
				turnQ.rotate(q)
			}
			keys := x[heads*hd:]
			if row.pages != nil {
				a.toPage(row, i, keys, turnK)
				continue
			}
			for h := range keyHeads {
				at := (h*row.keys() + row.past + i) * hd
				k := row.k[at:][:hd]
				copy(k, keys[h*hd:])
				turnK.rotate(k)
				if a.kinds() == 2 {
					copy(row.v[at:][:hd], keys[(keyHeads+h)*hd:])
				}
			}
		}
	})
}

// toPage stores the keys and values x of position i of a row in the cache's pages.
func (a *attention) toPage(row *attentionRow, i int, x []float32, turn turn) {
	heads, hd := a.keyHeads, a.hd
	page, place, _ := row.pages.At(row.past + i)
	if page.Rounded == nil {
		for which, rows := range page.Rows {
			for h := range heads {
				to := rows.Data()[(h*page.Room+place)*hd:][:hd]
				if copy(to, x[(which*heads+h)*hd:]); which == 0 {
					turn.rotate(to)
				}
			}
		}
		return
	}
	buf := getFloats(hd)
	defer putFloats(buf)
	for h := range heads {
		copy(*buf, x[h*hd:])
		turn.rotate(*buf)
		page.Rounded.Set(0, h*page.Room+place, *buf)
		if a.kinds() == 2 {
			page.Rounded.Set(1, h*page.Room+place, x[(heads+h)*hd:][:hd])
		}
	}
}

// attendGrain is the least number of multiply-adds of a task.
const attendGrain = 1 << 14

// forward computes all tiles, one block of keys after the other.
func (a *attention) forward(eng *Engine) {
	blocks := 1
	for b := 0; b < blocks; b++ {
		panels := a.fillPanels(eng, b)
		work := 0
		for i := range a.each {
			if row := &a.each[i]; b < a.blocks(row) {
				work += a.opt.Heads * row.l * row.keys() * a.hd
				blocks = max(blocks, a.blocks(row))
			}
		}
		a.work.clear()
		share := work // a single core reads pages in their order in memory, for all heads
		if cores := parallel.Workers(); cores > 1 {
			share = max(attendGrain, work/(2*cores))
		}
		for i := range a.each {
			row := &a.each[i]
			switch {
			case b >= a.blocks(row):
				a.work.add(0)
			case a.steps(row):
				row.together = max(1, min(a.opt.Heads, share/(row.keys()*a.hd)))
				a.work.add((a.opt.Heads + row.together - 1) / row.together)
			case row.inIntegers():
				row.together = a.integerHeads(row, share)
				a.work.add((a.opt.Heads + row.together - 1) / row.together * a.tiles(row))
			default:
				a.work.add(a.opt.Heads * a.tiles(row))
			}
		}
		grain := max(1, attendGrain*a.work.total()/work)
		a.work.each(grain, func(index, i int) {
			row := &a.each[index]
			tiles := a.tiles(row)
			first := i / tiles * row.together // first of the heads that step or integers computes together
			end := min(a.opt.Heads, first+row.together)
			switch {
			case a.steps(row):
				a.step(row, first, end)
			case row.inIntegers():
				a.integers(row, first, end, i%tiles)
			default:
				a.forwardTile(panels, row, i/tiles, i%tiles, b)
			}
		})
		eng.done(panels)
	}
}

// forwardTile computes the attention of a tile to block b. It writes the first block's result to y, and computes those
// of later blocks in scratch and joins them with y.
func (a *attention) forwardTile(panels []float32, row *attentionRow, h, i, b int) {
	var spans spanBuffer
	w := a.tile(spans[:], row, h, i)
	lse, d := a.lse[row.from*a.opt.Heads+h*row.l+w.i0:][:w.rows], a.opt.Heads*a.hd
	y := a.outputs(a.y.Data(), row, h, w.i0)
	if a.inPanels(row) {
		var one [1]engine.Span
		if w = w.block(one[:], row, b); w.columns <= 0 {
			return
		}
	}
	if b == 0 {
		a.forwardBlock(y, d, lse, panels, row, h, b, &w)
		return
	}
	buf := getFloats(w.rows * (a.hd + 1))
	defer putFloats(buf)
	more, moreLSE := (*buf)[:w.rows*a.hd], (*buf)[w.rows*a.hd:]
	a.forwardBlock(more, a.hd, moreLSE, panels, row, h, b, &w)
	for r := range w.rows {
		lse[r] = joinSoftmax(y[r*d:][:a.hd], lse[r], more[r*a.hd:][:a.hd], moreLSE[r])
	}
}

// forwardBlock sets the rows of y, ldy apart, to the attention of a tile to the keys of block b alone.
func (a *attention) forwardBlock(y []float32, ldy int, lse, panels []float32, row *attentionRow, h, b int,
	w *attentionTile) {
	buf := getFloats(w.rows * w.columns)
	defer putFloats(buf)
	p := *buf
	keys, values := a.forwardHead(panels, row, a.opt.KeyHead(h), b)
	a.scores(p, &keys, row, h, w, lse, false)
	a.dropWeights(p, row, h, w)
	values.sums(y, ldy, p, w)
}

// scores fills p (rows, columns) with the softmax weights of a tile. Their log-sum-exp is an input if known is true,
// else a result: -Inf for a query that sees no key of a block.
func (a *attention) scores(p []float32, keys *rowsOfHead, row *attentionRow, h int, w *attentionTile, lse []float32,
	known bool) {
	keys.dots(p, a.queries(a.q, row, h, w.i0), a.hd, w)
	a.softmax(p, row, h, w, lse, nil, known)
}

// softmax turns the products of a tile's queries and keys into weights. Unless inverse is nil, the weights of each
// query are not normalized: they are to be multiplied by the query's number in inverse.
func (a *attention) softmax(p []float32, row *attentionRow, h int, w *attentionTile, lse, inverse []float32,
	known bool) {
	n := w.columns
	a.addDistances(p, row, h, w)
	for r := range w.rows {
		from, to := w.seen(r)
		x := p[r*n:][:n]
		switch {
		case from == to:
			if lse[r] = float32(math.Inf(-1)); inverse != nil {
				inverse[r] = 1
			}
		case inverse != nil:
			lse[r], inverse[r] = kernel.SoftmaxTimes(x[from:to], a.scale)
		case known:
			kernel.SoftmaxAgain(x[from:to], a.scale, lse[r])
		default:
			lse[r] = kernel.Softmax(x[from:to], a.scale)
		}
		clear(x[:from])
		clear(x[to:])
	}
}

// joinSoftmax joins two softmax-weighted sums over different terms, y and more, into the sum over all terms, in y. It
// takes the log-sum-exps of both sums and returns the log-sum-exp of all terms:
//
//	y ← y·(1-s) + more·s,   s = 1/(1 + e^(lse - moreLSE))
func joinSoftmax(y []float32, lse float32, more []float32, moreLSE float32) float32 {
	ahead := float64(moreLSE) - float64(lse)
	if math.IsInf(ahead, -1) {
		return lse
	}
	s := float32(1 / (1 + math.Exp(-ahead)))
	kernel.Scale(y, 1-s)
	kernel.Axpy(s, more, y)
	return float32(float64(max(lse, moreLSE)) + math.Log1p(math.Exp(-math.Abs(ahead))))
}

// dropWeights applies dropout to a tile of weights or of their gradients. The mask depends on (head, query, key) in the
// row.
func (a *attention) dropWeights(p []float32, row *attentionRow, h int, w *attentionTile) {
	if a.drop.scale == 0 {
		return
	}
	seed := a.rows.Seed(row.index, a.dropout)
	for r := range w.rows {
		x, first := p[r*w.columns:][:w.columns], (h*row.l+w.i0+r)*row.keys()
		for _, span := range w.spans {
			kernel.Drop(x[:span.Len()], seed, first+span.Lo, a.drop.threshold, a.drop.scale)
			x = x[span.Len():]
		}
	}
}
