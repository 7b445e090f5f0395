package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// attentionRows is how many queries one tile has: the scores of a tile are the most that is ever kept of the L×L matrix.
const attentionRows = 64

// Attention is softmax attention over packed projections qkv (b, l, 3·d), rows ordered (three, heads, head_dim):
//
//	y = softmax(Q Kᵀ/√head_dim + mask) V
//
// with the positions in cache (nil for none) before those of the chunk. It is causal, unless it is to see ahead. The
// scores are made tile by tile, over long sequences block by block of the keys, and recomputed in backward from their
// log-sum-exp (as in FlashAttention, arXiv:2205.14135): no L×L matrix is kept. Of keys that no query of a tile sees
// nothing is computed.
func (eng *Engine) oldAttention(qkv *tensor.Tensor, cache *engine.KVCache, o engine.AttentionOptions, drop uint64) *tensor.Tensor {
	batch, l, d := qkv.Dim(0), qkv.Dim(1), qkv.Dim(2)/3
	hd := d / o.Heads
	a := attention{qkv: qkv, opt: o, batch: batch, l: l, hd: hd, precision: eng.precision(), q: eng.New(batch, o.Heads, l, hd)}
	a.scale = float32(1 / math.Sqrt(float64(hd)))
	if cache != nil {
		a.forget = cache.Len - o.Remembered(cache.Len)
		a.past, a.start, a.pastK, a.pastV = cache.Len-a.forget, cache.Start+a.forget, cache.K, cache.V
	}
	inPlace := cache != nil && !eng.Recording && (o.Window == 0 || l < o.Window)
	var passing engine.KVCache // rounded keys and values of which not all are going to stay
	switch {
	case inPlace:
		cache.Reserve(batch, o.Heads, l, hd, &o)
		a.past, a.start, a.forget = cache.Len, cache.Start, 0
		a.k, a.v, a.rounded, a.room = cache.K, cache.V, roundedOf(cache), cache.Room()
	case cache != nil && cache.Rounded != nil:
		passing = cache.Empty(batch, o.Heads, a.past+l, hd)
		passing.Move(cache, a.forget, a.past)
		a.rounded, a.room = roundedOf(&passing), passing.Room()
	default:
		a.room = a.past + l
		a.k, a.v = eng.New(batch, o.Heads, a.room, hd), eng.New(batch, o.Heads, a.room, hd)
		a.copyPast()
	}
	a.unpack()
	if eng.Seed != nil && o.Dropout > 0 {
		a.drop = newMask(o.Dropout, drop)
	}
	a.y = eng.New(batch, l, d)
	a.lse = eng.arena.Floats(batch * o.Heads * l)
	tiles := a.tiles()
	panels := a.panels(eng)
	parallel.For(batch*o.Heads*tiles, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			a.forwardTile(panels, i/tiles, i%tiles)
		}
	})
	eng.done(panels)
	record := eng.wants(qkv, a.pastK, a.pastV)
	switch {
	case inPlace:
		cache.Len += l
	case passing.Rounded != nil:
		passing.Len, passing.Start = a.past+l, a.start
		*cache = passing.Clone(o.Remembered(passing.Len))
	case cache != nil && eng.Recording:
		*cache = engine.KVCache{K: a.k, V: a.v, Len: a.past + l, Start: a.start}
	case cache != nil:
		cache.Replace(a.k, a.v, a.start, &o)
	}
	if record {
		op := take[attentionOp](eng)
		lengths := append(op.lengths[:0], o.Lengths...) // the caller may change his
		op.attention, op.lengths = a, lengths
		if o.Lengths != nil {
			op.opt.Lengths = lengths
		}
		eng.push(op)
	}
	return a.y
}

type attention struct {
	qkv, q, k, v, y *tensor.Tensor       // q, k, v (b, heads, ·, head_dim), rotated
	rounded         []kernel.RoundedRows // keys and values of a cache of another precision, instead of k and v
	room            int                  // positions that there is memory for in k and v, or in those
	pastK, pastV    *tensor.Tensor
	lse             []float32 // (b, heads, l)
	opt             engine.AttentionOptions
	batch, l        int
	forget          int // positions at the front of the cache that no query sees any more
	past, hd        int // positions in the cache behind them
	start           int // and before these
	scale           float32
	precision       kernel.Precision
	drop            mask
}

func (a *attention) copyPast() {
	if a.past > 0 {
		tensor.CopyRows(a.k, 0, a.pastK, a.forget, a.past)
		tensor.CopyRows(a.v, 0, a.pastV, a.forget, a.past)
	}
}

// unpack splits qkv into heads, rotates queries and keys to their positions and puts keys and values behind the past.
func (a *attention) unpack() {
	heads, d := a.opt.Heads, a.opt.Heads*a.hd
	parallel.For(a.batch*a.l, rowGrain(3*d), func(lo, hi int) {
		buf := getFloats(2 * a.hd)
		defer putFloats(buf)
		for r := lo; r < hi; r++ {
			b, i := r/a.l, r%a.l
			row := a.qkv.Data()[r*3*d:][:3*d]
			turnQ, turnK := turns(a.opt.Rotary, a.start+a.past+i)
			for h := range heads {
				q := a.q.Data()[((b*heads+h)*a.l+i)*a.hd:][:a.hd]
				at := (b*heads+h)*a.room + a.past + i
				k, v := (*buf)[:a.hd], (*buf)[a.hd:]
				if a.rounded == nil {
					k, v = a.k.Data()[at*a.hd:][:a.hd], a.v.Data()[at*a.hd:][:a.hd]
				}
				copy(q, row[h*a.hd:])
				copy(k, row[d+h*a.hd:])
				copy(v, row[2*d+h*a.hd:])
				turnQ.rotate(q)
				turnK.rotate(k)
				if a.rounded != nil {
					a.rounded[0].Set(at, k)
					a.rounded[1].Set(at, v)
				}
			}
		}
	})
}

// scores fills p (rows, columns) with the softmax weights of a tile, given or making their log-sum-exp. That of a row
// which sees nothing of a block of keys is -Inf.
func (a *attention) scores(p []float32, keys *rowsOfHead, bh int, w *attentionTile, lse []float32, known bool) {
	n := w.columns
	keys.dots(p, a.q.Data()[(bh*a.l+w.i0)*a.hd:], a.hd, w)
	a.addDistances(p, bh%a.opt.Heads, w)
	for r := range w.rows {
		from, to := w.seen(r)
		row := p[r*n:][:n]
		switch {
		case from == to:
			lse[r] = float32(math.Inf(-1))
		case known:
			kernel.SoftmaxAgain(row[from:to], a.scale, lse[r])
		default:
			lse[r] = kernel.Softmax(row[from:to], a.scale)
		}
		clear(row[:from])
		clear(row[to:])
	}
}

// lseOf are the log-sum-exps of a tile.
func (a *attention) lseOf(bh int, w *attentionTile) []float32 { return a.lse[bh*a.l+w.i0:][:w.rows] }

func (a *attention) forwardTile(panels []float32, bh, i int) {
	var spans spanBuffer
	w := a.tile(spans[:], bh, i)
	heads, d := a.opt.Heads, a.opt.Heads*a.hd
	y := a.y.Data()[(bh/heads*a.l+w.i0)*d+bh%heads*a.hd:]
	for r := range w.padding {
		clear(y[(w.rows+r)*d:][:a.hd])
	}
	if w.rows == 0 {
		return
	}
	lse := a.lseOf(bh, &w)
	if !a.inPanels() || w.columns <= keyBlock {
		a.forwardBlock(y, d, lse, panels, bh, 0, &w)
		return
	}
	buf := getFloats(w.rows * (a.hd + 1))
	defer putFloats(buf)
	more, moreLSE := (*buf)[:w.rows*a.hd], (*buf)[w.rows*a.hd:]
	for b := range keyBlocks(w.columns) {
		var one [1]engine.Span
		part := w.block(one[:], b)
		if b == 0 {
			a.forwardBlock(y, d, lse, panels, bh, b, &part)
			continue
		}
		a.forwardBlock(more, a.hd, moreLSE, panels, bh, b, &part)
		for r := range w.rows {
			lse[r] = joinSoftmax(y[r*d:][:a.hd], lse[r], more[r*a.hd:][:a.hd], moreLSE[r])
		}
	}
}

// forwardBlock sets the rows of y, ldy apart, to the attention of a tile to the keys of block b alone.
func (a *attention) forwardBlock(y []float32, ldy int, lse, panels []float32, bh, b int, w *attentionTile) {
	buf := getFloats(w.rows * w.columns)
	defer putFloats(buf)
	p := *buf
	keys, values := a.forwardHead(panels, bh, b)
	a.scores(p, &keys, bh, w, lse, false)
	a.dropWeights(p, bh, w)
	values.sums(y, ldy, p, w)
}

// joinSoftmax makes of a sum y weighted by one softmax, and of another by a softmax over other terms, given the
// log-sum-exps of both, the sum weighted by the softmax over all terms, in y, and returns the log-sum-exp of that:
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

// dropWeights applies dropout to a tile of weights (or of their gradients).
func (a *attention) dropWeights(p []float32, bh int, w *attentionTile) {
	if a.drop.scale == 0 {
		return
	}
	total := a.past + a.l
	for r := range w.rows {
		row, first := p[r*w.columns:][:w.columns], (bh*a.l+w.i0+r)*total
		for _, span := range w.spans {
			kernel.Drop(row[:span.Len()], a.drop.seed, first+span.Lo, a.drop.threshold, a.drop.scale)
			row = row[span.Len():]
		}
	}
}

type attentionOp struct {
	attention
	lengths []int // what opt.Lengths is
}

func (o *attentionOp) Name() string { return "Attention" }

func (o *attentionOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	f(o.k)
	f(o.v)
}

// Backward: with P the weights after the softmax (P' after dropout) and δ_i = Σ_j dy_ij y_ij,
//
//	dV = P'ᵀ dY,   dP' = dY Vᵀ,   dS = P ⊙ (dP - δ),   dQ = dS K/√hd,   dK = dSᵀ Q/√hd
func (o *attentionOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	if dy == nil {
		dy = eng.grad(o.y)
	}
	dqkv, add := eng.gradTo(o.qkv)
	dk, dv := eng.grad(o.k), eng.grad(o.v) // they may hold what later chunks sent back already
	dq := eng.arena.Borrow(o.q.Len())
	defer eng.done(dq)
	heads, s, hd := o.opt.Heads, o.past+o.l, o.hd
	tiles := o.tiles()
	parallel.For(o.batch*heads, 1, func(lo, hi int) {
		for bh := lo; bh < hi; bh++ {
			keys, values, buf := o.backwardHead(bh)
			for i := range tiles {
				o.backwardTile(dq, dk[bh*s*hd:][:s*hd], dv[bh*s*hd:][:s*hd], dy, &keys, &values, bh, i)
			}
			putFloats(buf)
		}
	})
	o.packGrad(dqkv, dq, dk, dv, add)
	o.pastGrad(eng.gradOf(o.pastK), dk)
	o.pastGrad(eng.gradOf(o.pastV), dv)
}

func (o *attentionOp) backwardTile(dq, dk, dv, dy []float32, keys, values *rowsOfHead, bh, i int) {
	heads, d, hd := o.opt.Heads, o.opt.Heads*o.hd, o.hd
	var spans spanBuffer
	w := o.tile(spans[:], bh, i)
	clear(dq[(bh*o.l+w.i0+w.rows)*hd:][:w.padding*hd])
	if w.rows == 0 {
		return
	}
	n := w.columns
	buf := getFloats(2 * w.rows * n)
	defer putFloats(buf)
	p, ds := (*buf)[:w.rows*n], (*buf)[w.rows*n:]
	rows := (bh/heads*o.l+w.i0)*d + bh%heads*hd
	out, g, q := o.y.Data()[rows:], dy[rows:], o.q.Data()[(bh*o.l+w.i0)*hd:]

	o.scores(p, keys, bh, &w, o.lseOf(bh, &w), true)
	values.dots(ds, g, d, &w)
	o.dropWeights(ds, bh, &w)
	for r := range w.rows {
		delta := kernel.Dot(g[r*d:][:hd], out[r*d:][:hd])
		from, to := w.seen(r)
		row := ds[r*n:][:n]
		clear(row[:from])
		kernel.SoftmaxGrad(row[from:to], p[r*n:][from:to], delta, o.scale)
		clear(row[to:])
	}
	o.dropWeights(p, bh, &w)
	keys.sums(dq[(bh*o.l+w.i0)*hd:], hd, ds, &w)
	o.addToRows(dk, ds, q, hd, &w)
	o.addToRows(dv, p, g, d, &w)
}

// pastGrad adds the past's part of the gradient dk of all keys (or values) to dpast, nil where none is wanted.
func (o *attentionOp) pastGrad(dpast, dk []float32) {
	if dpast == nil {
		return
	}
	n, s, before := o.past*o.hd, (o.past+o.l)*o.hd, (o.forget+o.past)*o.hd
	for bh := range o.batch * o.opt.Heads {
		kernel.Add(dpast[bh*before+o.forget*o.hd:][:n], dk[bh*s:])
	}
}

// packGrad rotates the gradients of queries and keys back and writes them, and those of the values, to dqkv, or adds them.
func (o *attentionOp) packGrad(dqkv, dq, dk, dv []float32, add bool) {
	if dqkv == nil {
		return
	}
	heads, d, hd, s := o.opt.Heads, o.opt.Heads*o.hd, o.hd, o.past+o.l
	parallel.For(o.batch*o.l, rowGrain(3*d), func(lo, hi int) {
		var buf *[]float32
		if add {
			buf = getFloats(3 * d)
			defer putFloats(buf)
		}
		for r := lo; r < hi; r++ {
			b, i := r/o.l, r%o.l
			row := dqkv[r*3*d:][:3*d]
			g := row
			if add {
				g = *buf
			}
			turnQ, turnK := turns(o.opt.Rotary, o.start+o.past+i)
			for h := range heads {
				bh := b*heads + h
				q, k, v := g[h*hd:][:hd], g[d+h*hd:][:hd], g[2*d+h*hd:][:hd]
				copy(q, dq[(bh*o.l+i)*hd:])
				copy(k, dk[(bh*s+o.past+i)*hd:])
				copy(v, dv[(bh*s+o.past+i)*hd:])
				turnQ.transposed(q)
				turnK.transposed(k)
			}
			if add {
				kernel.Add(row, g)
			}
		}
	})
}
