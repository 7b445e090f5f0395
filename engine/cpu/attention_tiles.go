package cpu

import "github.com/hippo-ssm/hippo/engine"

// attentionTile is a run of queries of a row, with the keys that at least one of them sees. Its scores are a matrix
// (rows, columns), with the spans of keys side by side.
type attentionTile struct {
	i0, rows int // queries of the row
	spans    []engine.Span
	columns  int
	beyond   int // number of keys that the tile sees in later blocks, if it is limited to one block
	window   int // of AttentionOptions
	ahead    bool
}

// spanBuffer has space for the spans of most tiles.
type spanBuffer [16]engine.Span

// seen returns the columns [from, to) that query r sees. Unless it sees ahead, the last columns of all blocks of keys
// are the queries' own positions.
func (w *attentionTile) seen(r int) (from, to int) {
	if w.ahead {
		return 0, w.columns
	}
	to = min(max(0, w.columns+w.beyond-(w.rows-1-r)), w.columns)
	if w.window > 0 {
		from = max(0, to-w.window)
	}
	return from, to
}

// block limits a tile, whose keys are one span from key 0 on, to block b. Its span is stored in buf. It has no columns
// if the tile sees no key of the block.
func (w attentionTile) block(buf []engine.Span, row *attentionRow, b int) attentionTile {
	end := w.columns
	lo, hi := row.block(b)
	hi = min(hi, end)
	w.columns, w.beyond = hi-lo, end-hi
	w.spans = append(buf[:0], engine.Span{Lo: lo, Hi: hi})
	return w
}

// tiles returns the number of tiles of each head of a row.
func (a *attention) tiles(row *attentionRow) int {
	if b := a.opt.Blocks; b != nil { // tiles are the blocks of the sequence
		first := row.start + row.past
		return (first+row.l-1)/b.Size - first/b.Size + 1
	}
	return (row.l + attentionRows - 1) / attentionRows
}

// tile returns tile i of a head, with its spans in buf.
func (a *attention) tile(buf []engine.Span, row *attentionRow, h, i int) attentionTile {
	w := attentionTile{window: a.opt.Window, spans: buf[:0], i0: i * attentionRows}
	w.rows = min(attentionRows, row.l-w.i0)
	last := row.past + w.i0 + w.rows
	switch b := a.opt.Blocks; {
	case b != nil:
		first := row.start + row.past
		block := first/b.Size + i
		w.i0 = max(block*b.Size-first, 0)
		w.rows = min((block+1)*b.Size-first, row.l) - w.i0
		w.ahead = b.Ahead
		w.spans = b.Spans(w.spans, h, block, first+w.i0+w.rows, first+row.l, row.start)
	case a.opt.Ahead:
		w.ahead = true
		w.spans = append(w.spans, engine.Span{Lo: 0, Hi: row.l})
	case w.window > 0:
		w.spans = append(w.spans, engine.Span{Lo: max(0, last-w.rows+1-w.window), Hi: last})
	default:
		w.spans = append(w.spans, engine.Span{Lo: 0, Hi: last})
	}
	for _, s := range w.spans {
		w.columns += s.Len()
	}
	return w
}
