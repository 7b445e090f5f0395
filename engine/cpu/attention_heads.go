package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// rowsOfHead are the keys of a head, or its values: x (positions, head_dim), or the rows of rounded from first on. Where several
// tiles of queries see them all from the first one on, they are put into panels once for all tiles: across for products with rows
// of x, along for sums of them.
type rowsOfHead struct {
	x             []float32
	rounded       *kernel.RoundedRows
	first         int
	hd            int
	decoding      bool // there is one query: what takes time is to read the rows
	precision     kernel.Precision
	across, along kernel.Panels
	inPanels      bool
}

// stepRows is for how many queries of a causal tile products are cut off behind the last key that any of them sees.
const stepRows = 16

// steps calls f for runs of rows [r0, r1) of a tile and the number of columns that they see.
func (w *attentionTile) steps(f func(r0, r1, columns int)) {
	if w.ahead || w.beyond >= w.rows {
		f(0, w.rows, w.columns)
		return
	}
	for r := 0; r < w.rows; r += stepRows {
		end := min(r+stepRows, w.rows)
		_, columns := w.seen(end - 1)
		f(r, end, columns)
	}
}

// dots sets p (rows, columns) to the products of the rows of q, ldq apart, with those of x that the tile sees. Of others p is
// unspecified.
func (h *rowsOfHead) dots(p, q []float32, ldq int, w *attentionTile) {
	if h.inPanels {
		w.steps(func(r0, r1, columns int) {
			h.across.GemmInline(r1-r0, columns, h.hd, q[r0*ldq:], ldq, p[r0*w.columns:], w.columns, false)
		})
		return
	}
	at := 0
	for _, s := range w.spans {
		switch {
		case h.decoding && h.rounded != nil:
			h.rounded.Dots(h.first+s.Lo, s.Len(), q, p[at:])
		case h.decoding:
			kernel.RowDots(s.Len(), h.hd, h.x[s.Lo*h.hd:], h.hd, q, p[at:])
		default:
			x, lent := h.floats(s.Lo, s.Len())
			h.precision.GemmInline(kernel.Product{
				Op: kernel.NT, M: w.rows, N: s.Len(), K: h.hd, A: q, LDA: ldq, B: x, LDB: h.hd,
				C: p[at:], LDC: w.columns,
			})
			giveBack(lent)
		}
		at += s.Len()
	}
}

// sums sets the rows of y, ldy apart, to the rows of x that the tile sees, weighted by p (rows, columns).
func (h *rowsOfHead) sums(y []float32, ldy int, p []float32, w *attentionTile) {
	if h.inPanels {
		w.steps(func(r0, r1, columns int) {
			h.along.GemmInline(r1-r0, h.hd, columns, p[r0*w.columns:], w.columns, y[r0*ldy:], ldy, false)
		})
		return
	}
	at := 0
	for _, s := range w.spans {
		switch {
		case h.decoding && h.rounded != nil:
			h.rounded.Sums(h.first+s.Lo, s.Len(), p[at:], y, at > 0)
		case h.decoding && at == 0:
			kernel.RowSums(s.Len(), h.hd, h.x[s.Lo*h.hd:], h.hd, p, y)
		default:
			x, lent := h.floats(s.Lo, s.Len())
			h.precision.GemmInline(kernel.Product{
				Op: kernel.NN, M: w.rows, N: h.hd, K: s.Len(), A: p[at:], LDA: w.columns, B: x, LDB: h.hd,
				C: y, LDC: ldy, Add: at > 0,
			})
			giveBack(lent)
		}
		at += s.Len()
	}
}

// floats returns n rows from the given one on in float32, and the memory to give back after use, if any.
func (h *rowsOfHead) floats(from, n int) (x []float32, lent *[]float32) {
	if h.rounded == nil {
		return h.x[from*h.hd:], nil
	}
	lent = getFloats(n * h.hd)
	h.rounded.Get(*lent, h.first+from, n)
	return *lent, lent
}

// giveBack gives back what floats lent, if anything.
func giveBack(lent *[]float32) {
	if lent != nil {
		putFloats(lent)
	}
}

// addToRows adds to dx (positions, head_dim) what the tile's rows g, ldg apart, send back by the weights p (rows, columns).
func (a *attention) addToRows(dx, p, g []float32, ldg int, w *attentionTile) {
	at, n, hd := 0, w.columns, a.hd
	for _, s := range w.spans {
		columns := s.Len()
		if a.inPanels() && !w.ahead { // own positions are seen by some of the rows only
			columns -= w.rows
			for r := 0; r < w.rows; r += stepRows {
				own := columns + r
				a.precision.GemmInline(kernel.Product{
					Op: kernel.TN, M: min(stepRows, w.rows-r), N: hd, K: w.rows - r, A: p[r*n+own:], LDA: n,
					B: g[r*ldg:], LDB: ldg, C: dx[own*hd:], LDC: hd, Add: true,
				})
			}
		}
		a.precision.GemmInline(kernel.Product{
			Op: kernel.TN, M: columns, N: hd, K: w.rows, A: p[at:], LDA: n, B: g, LDB: ldg,
			C: dx[s.Lo*hd:], LDC: hd, Add: true,
		})
		at += s.Len()
	}
}

// inPanels tells whether keys and values are worth panels: several tiles see all of them from the first one on.
func (a *attention) inPanels() bool {
	return a.opt.Blocks == nil && a.opt.Window == 0 && a.l > attentionRows
}

// heads are the keys and values of sequence and head bh.
func (a *attention) heads(bh int) (keys, values rowsOfHead) {
	keys = rowsOfHead{first: bh * a.room, hd: a.hd, decoding: a.l == 1, precision: a.precision, inPanels: a.inPanels()}
	values = keys
	if a.rounded != nil {
		keys.rounded, values.rounded = &a.rounded[0], &a.rounded[1]
	} else {
		size := a.room * a.hd
		keys.x, values.x = a.k.Data()[bh*size:][:size], a.v.Data()[bh*size:][:size]
	}
	return keys, values
}

// keyBlock is how many keys a tile looks at before it goes on to the next ones, so that their panels and its scores
// stay in the cache however long the sequence is. Blocks begin at multiples of it, counted from the first key: what a
// query gets does not depend on the chunk that it comes in.
const keyBlock = 3072

// keyBlocks is the number of blocks of so many keys.
func keyBlocks(keys int) int { return (keys + keyBlock - 1) / keyBlock }

// panelsLen are the numbers of floats that the panels of n keys or values of a head take, of both kinds. Where products
// take the rows as they lie, there is room for rounded ones in float32 instead.
func (a *attention) panelsLen(n int) (across, along int) {
	if !a.inPanels() {
		return 0, 0
	}
	least := 0
	if a.rounded != nil {
		least = n * a.hd
	}
	return max(least, a.precision.PanelsLen(kernel.NT, n, a.hd)), max(least, a.precision.PanelsLen(kernel.NN, a.hd, n))
}

// acrossIn and alongIn say where the panels of one kind lie.
func (h *rowsOfHead) acrossIn(buf []float32, n int) {
	h.across = h.precision.Panels(kernel.NT, n, h.hd, h.asTheyLie(buf), h.hd, buf)
}

func (h *rowsOfHead) alongIn(buf []float32, n int) {
	h.along = h.precision.Panels(kernel.NN, h.hd, n, h.asTheyLie(buf), h.hd, buf)
}

// asTheyLie are the rows for products that need no panels: rounded ones are where those would be.
func (h *rowsOfHead) asTheyLie(buf []float32) []float32 {
	if h.rounded != nil {
		return buf
	}
	return h.x
}

// fill puts n rows into panels, or rounded ones where those would be.
func (h *rowsOfHead) fill(p *kernel.Panels, n int) {
	if h.rounded == nil {
		p.Fill()
		return
	}
	x, lent := h.floats(0, n)
	p.FillFrom(x)
	giveBack(lent)
}

// from are the rows from the given one on.
func (h rowsOfHead) from(row int) rowsOfHead {
	if h.rounded == nil {
		h.x = h.x[row*h.hd:]
	}
	h.first += row
	return h
}

// panels puts all heads into the panels that forward needs, block by block, and returns them.
func (a *attention) panels(eng *Engine) []float32 {
	n := a.past + a.l
	across, along := a.panelsLen(min(n, keyBlock))
	each := keyBlocks(n)
	count := a.batch * a.opt.Heads * each
	buf := eng.arena.Borrow(count * (across + along))
	if across+along > 0 {
		parallel.For(count, 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				keys, values := a.forwardHead(buf, i/each, i%each)
				rows := min(keyBlock, n-i%each*keyBlock)
				keys.fill(&keys.across, rows)
				values.fill(&values.along, rows)
			}
		})
	}
	return buf
}

// forwardHead are the keys and values of a head in block b, with their part of panels, or all of them where there are
// none.
func (a *attention) forwardHead(panels []float32, bh, b int) (keys, values rowsOfHead) {
	keys, values = a.heads(bh)
	if keys.inPanels {
		n := a.past + a.l
		keys, values = keys.from(b*keyBlock), values.from(b*keyBlock)
		across, along := a.panelsLen(min(n, keyBlock))
		panels = panels[(bh*keyBlocks(n)+b)*(across+along):]
		rows := min(keyBlock, n-b*keyBlock)
		keys.acrossIn(panels, rows)
		values.alongIn(panels[across:], rows)
	}
	return keys, values
}

// backwardHead are the keys and values of a head in the panels that backward needs, which lie in buf.
func (a *attention) backwardHead(bh int) (keys, values rowsOfHead, buf *[]float32) {
	keys, values = a.heads(bh)
	across, along := a.panelsLen(a.past + a.l)
	buf = getFloats(2*across + along)
	if keys.inPanels {
		at, n := *buf, a.past+a.l
		keys.acrossIn(at, n)
		values.acrossIn(at[across:], n)
		keys.alongIn(at[2*across:], n)
		keys.across.Fill()
		values.across.Fill()
		keys.along.Fill()
	}
	return keys, values, buf
}
