package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// keyBlock is the number of keys of a block. It is small enough for their panels and a tile's scores to stay in the
// processor's cache, whatever the length of the sequence. Blocks start at multiples of keyBlock, counted from the first
// position of the sequence, so the result of a query does not depend on how the sequence is cut into rows.
const keyBlock = 3072

// inPanels reports whether panels of keys and values are worth while, which is when several tiles see all of them.
func (a *attention) inPanels(row *attentionRow) bool {
	return a.opt.Blocks == nil && a.opt.Window == 0 && row.l > attentionRows && !row.inIntegers()
}

// blocks returns the number of blocks of keys, or one if there are no panels.
func (a *attention) blocks(row *attentionRow) int {
	if !a.inPanels(row) {
		return 1
	}
	return row.blocks()
}

// blocks returns the number of blocks that contain the keys.
func (row *attentionRow) blocks() int {
	return (row.start+row.keys()-1)/keyBlock - row.start/keyBlock + 1
}

// block returns the range [lo, hi) of keys in block b.
func (row *attentionRow) block(b int) (lo, hi int) {
	end := (row.start/keyBlock+b+1)*keyBlock - row.start
	return max(0, end-keyBlock), min(row.keys(), end)
}

// panelsLen returns the lengths of both kinds of panels of n keys or values of a head. If products read rows without
// panels, the length is that of a copy of the rows in pages.
func (a *attention) panelsLen(row *attentionRow, n int) (across, along int) {
	least := 0
	if row.pages != nil {
		least = n * a.hd
	}
	return max(least, a.precision.PanelsLen(kernel.NT, n, a.hd)), max(least, a.precision.PanelsLen(kernel.NN, a.hd, n))
}

// fillPanels fills and returns the panels of block b of all rows that have keys there.
func (a *attention) fillPanels(eng *Engine, b int) []float32 {
	a.work.clear()
	size := 0
	for i := range a.each {
		row := &a.each[i]
		each := 0
		if a.inPanels(row) && b < a.blocks(row) {
			lo, hi := row.block(b)
			across, along := a.panelsLen(row, hi-lo)
			each = across + along
		}
		row.panels, size = size, size+a.keyHeads*each
		a.work.add(a.keyHeads * min(each, 1))
	}
	if size == 0 {
		return nil
	}
	panels := eng.arena.Borrow(size)
	a.work.each(1, func(index, key int) {
		row := &a.each[index]
		lo, hi := row.block(b)
		keys, values := a.forwardHead(panels, row, key, b)
		keys.fill(&keys.across, hi-lo)
		values.fill(&values.along, hi-lo)
	})
	return panels
}

// forwardHead returns the keys and values in block b of one of their heads, with their part of panels. Without panels
// it returns all keys and values of the head.
func (a *attention) forwardHead(panels []float32, row *attentionRow, key, b int) (keys, values rowsOfHead) {
	if !a.inPanels(row) {
		return a.head(row, key, 0)
	}
	lo, hi := row.block(b)
	keys, values = a.head(row, key, lo)
	across, along := a.panelsLen(row, hi-lo)
	panels = panels[row.panels+key*(across+along):]
	keys.acrossIn(panels, hi-lo)
	values.alongIn(panels[across:], hi-lo)
	return keys, values
}

// gradHead returns the keys and values of one of their heads in the panels that backward needs, which lie in buf.
func (a *attention) gradHead(row *attentionRow, key int) (keys, values rowsOfHead, buf *[]float32) {
	keys, values = a.head(row, key, 0)
	if !a.inPanels(row) {
		return keys, values, getFloats(0)
	}
	n := row.keys()
	across, along := a.panelsLen(row, n)
	buf = getFloats(2*across + along)
	at := *buf
	keys.acrossIn(at, n)
	values.acrossIn(at[across:], n)
	keys.alongIn(at[2*across:], n)
	keys.across.Fill()
	values.across.Fill()
	keys.along.Fill()
	return keys, values, buf
}
