package kernel

// A tile is rows of Lanes channels, as the long convolution takes them: what its channels are from one position to the next lies
// Lanes floats apart.

// ToTile sets y to the tile of width ≤ Lanes channels of n elements each, which begin ldx floats apart in x, and of zeros:
//
//	y[j·Lanes + i] = x[i·ldx + j]
//
// Unread says that y will not be read soon: it is written past the caches where that pays.
func ToTile(y, x []float32, ldx, n, width int, unread bool) {
	at := 0
	if width == Lanes {
		at = toTileBlocks(y, x, ldx, n, unread)
	} else {
		clear(y[:n*Lanes])
	}
	Transpose(width, n-at, y[at*Lanes:], Lanes, x[at:], ldx)
}

// FromTile sets the width channels of y to those of a tile: y[i·ldy + j] = x[j·Lanes + i], j < n.
func FromTile(y, x []float32, ldy, n, width int) {
	at := 0
	if width == Lanes {
		at = fromTileBlocks(y, x, ldy, n)
	}
	Transpose(n-at, width, y[at:], ldy, x[at*Lanes:], Lanes)
}
