package cpu

// steps reports whether a row is a single query whose heads all see the same keys, in pages of floats.
func (a *attention) steps(row *attentionRow) bool {
	return row.l == 1 && row.pages != nil && a.opt.Blocks == nil && !row.inIntegers()
}

// step computes forwardTile for the heads [lo, hi) of such a row. It reads page by page, and in a page head by head,
// which is the order in memory, because most of the time is spent reading. Every head adds in the same order as if it
// were computed alone.
func (a *attention) step(row *attentionRow, lo, hi int) {
	var spans spanBuffer
	w := a.tile(spans[:], row, lo, 0)
	n, span := w.columns, w.spans[0]
	buf := getFloats((hi - lo) * n)
	defer putFloats(buf)
	weights := func(h int) []float32 { return (*buf)[(h-lo)*n:][:n] }
	keys, values := a.head(row, a.opt.KeyHead(lo), 0)
	for at := span.Lo; at < span.Hi; {
		m := 0
		for h := lo; h < hi; h++ {
			keys.head = a.opt.KeyHead(h)
			m = keys.dotsOfRun(weights(h)[at-span.Lo:], a.queries(a.q, row, h, 0), a.hd, at, span.Hi, &w)
		}
		at += m
	}
	for h := lo; h < hi; h++ {
		a.softmax(weights(h), row, h, &w, a.lse[row.from*a.opt.Heads+h:][:1], nil, false)
		a.dropWeights(weights(h), row, h, &w)
	}
	for at := span.Lo; at < span.Hi; {
		m := 0
		for h := lo; h < hi; h++ {
			values.head = a.opt.KeyHead(h)
			y := a.outputs(a.y.Data(), row, h, 0)
			m = values.sumsOfRun(y, a.hd, weights(h)[at-span.Lo:], at, span.Hi, at > span.Lo, &w)
		}
		at += m
	}
}
