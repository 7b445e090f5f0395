package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
)

// rowsOfHead are the keys or the values of a head from some position on: in x (positions, head_dim), or in pages. If
// several tiles see all of them, they are packed into panels once for all tiles: across for products with them, along
// for weighted sums of them.
type rowsOfHead struct {
	x             []float32
	pages         *engine.KVCache
	which, head   int // keys (0) or values (1) of this head; 0 if the values are the keys
	first         int // position of the first row in the cache
	hd            int
	decoding      bool // there is one query, so that reading the rows takes most of the time
	precision     kernel.Precision
	across, along kernel.Panels
	inPanels      bool
}

// head returns the keys and values of one of their heads of a row, from number first on.
func (a *attention) head(row *attentionRow, key, first int) (keys, values rowsOfHead) {
	keys = rowsOfHead{pages: row.pages, head: key, first: first, hd: a.hd, decoding: row.l == 1, precision: a.precision,
		inPanels: a.inPanels(row)}
	values = keys
	values.which = a.kinds() - 1
	if row.pages == nil {
		n := row.keys() * a.hd
		keys.x, values.x = row.k[key*n:][first*a.hd:n], row.v[key*n:][first*a.hd:n]
	}
	return keys, values
}

// run finds n contiguous rows from lo on, up to hi. They start at x, or at row number at of rounded.
func (h *rowsOfHead) run(lo, hi int) (n int, x []float32, rounded *kernel.RoundedRows, at int) {
	if h.pages == nil {
		return hi - lo, h.x[lo*h.hd:], nil, 0
	}
	page, place, left := h.pages.At(h.first + lo)
	n, at = min(left, hi-lo), h.head*page.Room+place
	if page.Rounded != nil {
		return n, nil, &page.Rounded.(*roundedRows).rows[h.which], at
	}
	return n, page.Rows[h.which].Data()[at*h.hd:], nil, 0
}

// stepRows is the number of queries of a causal tile whose products end at the last key that any of them sees.
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

// dots sets p (rows, columns) to the dot products of the rows of q, ldq apart, with the rows that the tile sees. It
// leaves the other elements of p unspecified.
func (h *rowsOfHead) dots(p, q []float32, ldq int, w *attentionTile) {
	if h.inPanels {
		w.steps(func(r0, r1, columns int) {
			h.across.GemmInline(r1-r0, columns, h.hd, q[r0*ldq:], ldq, p[r0*w.columns:], w.columns, false)
		})
		return
	}
	column := 0
	for _, s := range w.spans {
		for lo := s.Lo; lo < s.Hi; {
			n := h.dotsOfRun(p[column:], q, ldq, lo, s.Hi, w)
			lo, column = lo+n, column+n
		}
	}
}

// sums sets the rows of y, ldy apart, to the sums of the rows that the tile sees, weighted by p (rows, columns).
func (h *rowsOfHead) sums(y []float32, ldy int, p []float32, w *attentionTile) {
	if h.inPanels {
		w.steps(func(r0, r1, columns int) {
			h.along.GemmInline(r1-r0, h.hd, columns, p[r0*w.columns:], w.columns, y[r0*ldy:], ldy, false)
		})
		return
	}
	column := 0
	for _, s := range w.spans {
		for lo := s.Lo; lo < s.Hi; {
			n := h.sumsOfRun(y, ldy, p[column:], lo, s.Hi, column > 0, w)
			lo, column = lo+n, column+n
		}
	}
}

// dotsOfRun is dots for the n rows that run finds.
func (h *rowsOfHead) dotsOfRun(p, q []float32, ldq, lo, hi int, w *attentionTile) (n int) {
	n, x, rounded, at := h.run(lo, hi)
	switch {
	case h.decoding && rounded != nil:
		rounded.Dots(at, n, q, p)
	case h.decoding:
		kernel.RowDots(n, h.hd, x, h.hd, q, p)
	default:
		x, lent := h.widened(x, rounded, at, n)
		h.precision.GemmInline(kernel.Product{Op: kernel.NT, M: w.rows, N: n, K: h.hd, A: q, LDA: ldq, B: x, LDB: h.hd,
			C: p, LDC: w.columns})
		returnBuffer(lent)
	}
	return n
}

// sumsOfRun is sums for the n rows that run finds; with add it adds them to y.
func (h *rowsOfHead) sumsOfRun(y []float32, ldy int, p []float32, lo, hi int, add bool, w *attentionTile) (n int) {
	n, x, rounded, at := h.run(lo, hi)
	switch {
	case h.decoding && rounded != nil:
		rounded.Sums(at, n, p, y, add)
	case h.decoding:
		kernel.RowSums(n, h.hd, x, h.hd, p, y, add)
	default:
		x, lent := h.widened(x, rounded, at, n)
		h.precision.GemmInline(kernel.Product{Op: kernel.NN, M: w.rows, N: h.hd, K: n, A: p, LDA: w.columns,
			B: x, LDB: h.hd, C: y, LDC: ldy, Add: add})
		returnBuffer(lent)
	}
	return n
}

// widened returns the rows that run found in float32, and the memory to give back after use, if any.
func (h *rowsOfHead) widened(x []float32, rounded *kernel.RoundedRows, at, n int) (floats []float32, lent *[]float32) {
	if rounded == nil {
		return x, nil
	}
	lent = getFloats(n * h.hd)
	rounded.Get(*lent, at, n)
	return *lent, lent
}

// returnBuffer returns lent memory, if there is any.
func returnBuffer(lent *[]float32) {
	if lent != nil {
		putFloats(lent)
	}
}

// acrossIn and alongIn choose where in buf the panels of n rows lie.
func (h *rowsOfHead) acrossIn(buf []float32, n int) {
	h.across = h.precision.Panels(kernel.NT, n, h.hd, h.unpacked(buf), h.hd, buf)
}

func (h *rowsOfHead) alongIn(buf []float32, n int) {
	h.along = h.precision.Panels(kernel.NN, h.hd, n, h.unpacked(buf), h.hd, buf)
}

// unpacked returns the rows for products that need no panels. Rows of pages have been copied to buf, in place of
// panels.
func (h *rowsOfHead) unpacked(buf []float32) []float32 {
	if h.pages != nil {
		return buf
	}
	return h.x
}

// fill packs n rows into panels, or copies rows of pages to the memory of the panels.
func (h *rowsOfHead) fill(p *kernel.Panels, n int) {
	if h.pages == nil {
		p.Fill()
		return
	}
	buf := getFloats(n * h.hd)
	defer putFloats(buf)
	for lo := 0; lo < n; {
		m, x, rounded, at := h.run(lo, n)
		if to := (*buf)[lo*h.hd:][:m*h.hd]; rounded != nil {
			rounded.Get(to, at, m)
		} else {
			copy(to, x)
		}
		lo += m
	}
	p.FillFrom(*buf)
}

// addToRows adds pᵀg to dx (positions, head_dim) for the rows that the tile sees, with weights p (rows, columns) and
// the tile's gradients g, ldg apart.
func (a *attention) addToRows(dx, p, g []float32, ldg int, row *attentionRow, w *attentionTile) {
	at, n, hd := 0, w.columns, a.hd
	for _, s := range w.spans {
		columns := s.Len()
		if a.inPanels(row) && !w.ahead { // only some of the queries see the tile's own positions
			columns -= w.rows
			for r := 0; r < w.rows; r += stepRows {
				own := columns + r
				a.precision.GemmInline(kernel.Product{Op: kernel.TN, M: min(stepRows, w.rows-r), N: hd, K: w.rows - r,
					A: p[r*n+own:], LDA: n, B: g[r*ldg:], LDB: ldg, C: dx[own*hd:], LDC: hd, Add: true})
			}
		}
		a.precision.GemmInline(kernel.Product{Op: kernel.TN, M: columns, N: hd, K: w.rows, A: p[at:], LDA: n,
			B: g, LDB: ldg, C: dx[s.Lo*hd:], LDC: hd, Add: true})
		at += s.Len()
	}
}
