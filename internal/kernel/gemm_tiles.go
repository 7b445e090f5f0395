package kernel

import "unsafe"

// Tiles of AMX multiply pairs of bfloat16 many times as fast as vectors do. A tile has up to 16 rows of 16 words. For
// 32 terms at a time, TDPBF16PS sums the products of the first halves of words, and those of the second halves, each in
// ascending order, from zero, and adds the sum of both to C. So the bits are not those of VDPBF16PS, which adds one
// term after the other. A row has the same bits beside any others, because a level that has tiles computes all products
// of pairs by them, or by vecShortRow, which gives the same bits.
const (
	tileSide  = 16      // rows of a tile, and words of a row
	tilesWork = 1 << 24 // multiply-adds of words in a call of assembly, some 40 µs
)

// tileShape is the operand of LDTILECFG: the sizes of all tiles.
type tileShape struct {
	palette uint8
	_       [15]uint8
	width   [16]uint16 // bytes of a row
	height  [16]uint8
}

// shapeTiles shapes four tiles of C, two of A and two of B for rows of A, columns of B, and words of both.
func shapeTiles(rows, cols, words int) (s tileShape) {
	s.palette = 1
	for tile := range 8 {
		height, width := rows, cols
		switch {
		case tile >= 6:
			height = words
		case tile >= 4:
			width = words
		}
		s.width[tile], s.height[tile] = uint16(4*width), uint8(height)
	}
	return s
}

// tilesOf divides n into tiles: as many whole ones as there are, or a smaller one.
func tilesOf(n int) (size, tiles int) {
	if n < tileSide {
		return n, 1
	}
	return tileSide, n / tileSide
}

// multiplyTiles computes vecGemmPairs by tiles, for A[i,p] in a[i·lda + p], panels of 48 columns, and at least one row,
// one column and one word. The sums begin with bias, or with the contents of C.
func multiplyTiles(m, n, words int, a []float32, lda int, b []float32, ps int, c []float32, ldc int, bias *float32,
	add bool) {
	var biases []float32
	if bias != nil {
		biases = unsafe.Slice(bias, n)
	}
	if add && bias != nil {
		for i := range m {
			for j, v := range biases {
				c[i*ldc+j] += v
			}
		}
	}
	most := 2 * max(1, tilesWork/(2*tileSide*n*words)) // tiles of rows in a call
	for k := 0; k < words; {
		depth, steps := tilesOf(words - k)
		for i := 0; i < m; {
			rows, down := tilesOf(m - i)
			down = min(down, most)
			for j := 0; j < n; {
				cols, across := tilesOf(n - j)
				shape := shapeTiles(rows, cols, depth)
				to := &c[i*ldc+j]
				start, lds := to, ldc
				switch {
				case k > 0 || add:
				case bias != nil:
					start, lds = &biases[j], 0
				default:
					start, lds = nil, 0
				}
				vecGemmTiles(&shape.palette, down, across, steps, &a[i*lda+k], lda,
					&b[j/packedWidth*ps+j%packedWidth+k*packedWidth], ps, start, lds, to, ldc)
				j += cols * across
			}
			i += rows * down
		}
		k += depth * steps
	}
}
