package kernel

import "unsafe"

// Channels in lanes are the layout of the long convolution: Lanes channels side by side, so that consecutive positions
// are Lanes floats apart.

// ToLanes copies width ≤ Lanes channels of n elements each, whose starts are ldx floats apart in x, into the lanes of
// y. The other lanes are zero:
//
//	y[j·Lanes + i] = x[i·ldx + j]
//
// unread tells that y will not be read soon: y is then written past the caches if that is worth while.
func ToLanes(y, x []float32, ldx, n, width int, unread bool) {
	at := 0
	if width == Lanes {
		at = toLanesBlocks(y, x, ldx, n, unread)
	} else {
		clear(y[:n*Lanes])
	}
	Transpose(width, n-at, y[at*Lanes:], Lanes, x[at:], ldx)
}

// FromLanes sets the width channels of y to those in the lanes of x: y[i·ldy + j] = x[j·Lanes + i], j < n.
func FromLanes(y, x []float32, ldy, n, width int) {
	at := 0
	if width == Lanes {
		at = fromLanesBlocks(y, x, ldy, n)
	}
	Transpose(n-at, width, y[at:], ldy, x[at*Lanes:], Lanes)
}

const (
	lanesBlock = 16      // positions at a time
	lanesCall  = 1 << 13 // positions in a call of assembly, some 50 µs
)

// toLanesBlocks is ToLanes for whole blocks of positions. It returns the number of these positions.
func toLanesBlocks(y, x []float32, ldx, n int, unread bool) int {
	n = n / lanesBlock * lanesBlock
	if !cpu.has(toLanesCode|toLanesStreamCode) || n == 0 {
		return 0
	}
	y, x = y[:n*Lanes], x[:(Lanes-1)*ldx+n]
	unread = unread && uintptr(unsafe.Pointer(&y[0]))%64 == 0
	for at := 0; at < n; at += lanesCall {
		blocks := min(lanesCall, n-at) / lanesBlock
		if unread {
			vecToLanesStream(blocks, &y[at*Lanes], &x[at], ldx)
		} else {
			vecToLanes(blocks, &y[at*Lanes], &x[at], ldx)
		}
	}
	if unread {
		streamed()
	}
	return n
}

// fromLanesBlocks is FromLanes for whole blocks of positions. It returns the number of these positions.
func fromLanesBlocks(y, x []float32, ldy, n int) int {
	n = n / lanesBlock * lanesBlock
	if !cpu.has(fromLanesCode) || n == 0 {
		return 0
	}
	x, y = x[:n*Lanes], y[:(Lanes-1)*ldy+n]
	for at := 0; at < n; at += lanesCall {
		vecFromLanes(min(lanesCall, n-at)/8, &y[at], ldy, &x[at*Lanes])
	}
	return n
}
