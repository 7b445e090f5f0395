package kernel

import "unsafe"

// A tile is rows of Lanes channels, the layout of the long convolution: consecutive positions are Lanes floats apart.

// ToTile sets y to the tile of width ≤ Lanes channels of n elements each, whose starts are ldx floats apart in x. The
// other lanes are zero:
//
//	y[j·Lanes + i] = x[i·ldx + j]
//
// Set unread if y will not be read soon: y is then written past the caches where that pays.
func ToTile(y, x []float32, ldx, n, width int, unread bool) {
	at := 0
	if width == Lanes {
		at = toTileBlocks(y, x, ldx, n, unread)
	} else {
		clear(y[:n*Lanes])
	}
	Transpose(width, n-at, y[at*Lanes:], Lanes, x[at:], ldx)
}

// FromTile sets the width channels of y to the channels of a tile: y[i·ldy + j] = x[j·Lanes + i], j < n.
func FromTile(y, x []float32, ldy, n, width int) {
	at := 0
	if width == Lanes {
		at = fromTileBlocks(y, x, ldy, n)
	}
	Transpose(n-at, width, y[at:], ldy, x[at*Lanes:], Lanes)
}

const (
	tileBlock = 16      // positions at a time
	tileCall  = 1 << 13 // positions in a call of assembly, some 50 µs
)

// toTileBlocks is ToTile for whole blocks of positions. It returns the number of these positions.
func toTileBlocks(y, x []float32, ldx, n int, unread bool) int {
	n = n / tileBlock * tileBlock
	if cpu == generic || n == 0 {
		return 0
	}
	y, x = y[:n*Lanes], x[:(Lanes-1)*ldx+n]
	unread = unread && uintptr(unsafe.Pointer(&y[0]))%64 == 0
	for at := 0; at < n; at += tileCall {
		blocks := min(tileCall, n-at) / tileBlock
		if unread {
			vecToTileStream(blocks, &y[at*Lanes], &x[at], ldx)
		} else {
			vecToTile(blocks, &y[at*Lanes], &x[at], ldx)
		}
	}
	if unread {
		streamed()
	}
	return n
}

// fromTileBlocks is FromTile for whole blocks of positions. It returns the number of these positions.
func fromTileBlocks(y, x []float32, ldy, n int) int {
	n = n / tileBlock * tileBlock
	if cpu == generic || n == 0 {
		return 0
	}
	x, y = x[:n*Lanes], y[:(Lanes-1)*ldy+n]
	for at := 0; at < n; at += tileCall {
		vecFromTile(min(tileCall, n-at)/8, &y[at], ldy, &x[at*Lanes])
	}
	return n
}
