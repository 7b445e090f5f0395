package kernel

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/hippo-ssm/hippo/internal/hugepage"
)

// The short form of a panel of bfloat16 is lossless and takes 12 bits instead of 16. A number can have 256 exponents.
// Weights are normally distributed at the start of training and after it, and 768 of them hardly ever need more than 16
// consecutive exponents. (DFloat11, arXiv:2504.11651, measured the same in published models and uses a Huffman code.)
//
// A panel is a sequence of blocks; a block has 8 words of each of the panel's 48 rows. The head of a block is a number
// of 32 bits. Subtracting it from each word turns every exponent into a code of 4 bits, and the 4 bits between code and
// sign become zero. So the last of a group of 4 words is not stored: its bits fill these places in the other three,
// four bits per number from the lowest on; the third takes the last three bits of the code, and the sign. The bits of a
// row never leave its lane, so shifts and masks alone restore a word. A block whose exponents are further apart has the
// head plainBlock and stores its words unchanged. Heads are stored elsewhere, so that vectors are aligned to cache
// lines.
//
// In float32 the same would save 4 bits of 32, but shifts and masks cost as much as that gains.
const (
	shortSteps = 8       // words of a row in a block
	shortRange = 16      // exponents that a code can distinguish
	plainBlock = 1 << 31 // no exponent reaches it
	shortGroup = 4       // words in a group; the last is stored in the others
	shortChunk = 128     // terms of which the calls of assembly take one or several
	shortTerms = 2 * shortSteps
	shortOnes  = 1<<16 | 1 // the lowest bit of each number of a word
)

// shortWords are the words of a block, step by step.
type shortWords [shortSteps * packedWidth]uint32

// hiddenPart returns the bits of the last word of a group that word i stores, and how far they are shifted to the right
// for it. The third word also stores the signs, shifted by one.
func hiddenPart(i int) (bits uint32, shift int) {
	if i == shortGroup-2 {
		return 7 * shortOnes << 8, 3
	}
	return 15 * shortOnes << (4 * i), 11 - 4*i
}

const shortSigns = shortOnes << 15

// shortSpare are the bits of a word of a block that its codes leave free.
const shortSpare = 15 * shortOnes << 11

// reveal returns the bits of the last word of a group that word i stores.
func reveal(word uint32, i int) uint32 {
	bits, shift := hiddenPart(i)
	found := word >> shift & bits
	if i == shortGroup-2 {
		found |= word << 1 & shortSigns
	}
	return found
}

// put writes the words of a block and returns their number.
func (words *shortWords) put(dst []uint32, head uint32) int {
	if head == plainBlock {
		return copy(dst, words[:])
	}
	type lanes = [packedWidth]uint32 // arrays, whose bounds need no checks
	at := 0
	for step := 0; step < shortSteps; step += shortGroup {
		last := (*lanes)(words[(step+shortGroup-1)*packedWidth:])
		for i := range shortGroup - 1 {
			from, to := (*lanes)(words[(step+i)*packedWidth:]), (*lanes)(dst[at:])
			bits, shift := hiddenPart(i)
			signs := uint32(0)
			if i == shortGroup-2 {
				signs = shortSigns
			}
			for j := range to {
				hidden := last[j] - head
				to[j] = from[j] - head | hidden&bits<<(shift&31) | hidden&signs>>1
			}
			at += packedWidth
		}
	}
	return at
}

// get reads the words of the block at the start of src and returns how many it takes there.
func (words *shortWords) get(src []uint32, head uint32) int {
	if head == plainBlock {
		return copy(words[:], src[:len(words)])
	}
	type lanes = [packedWidth]uint32 // arrays, whose bounds need no checks
	for step := 0; step < shortSteps; step += shortGroup {
		var from [shortGroup - 1]*lanes
		var to [shortGroup]*lanes
		for i := range to {
			if to[i] = (*lanes)(words[(step+i)*packedWidth:]); i < len(from) {
				from[i] = (*lanes)(src[(step/shortGroup*(shortGroup-1)+i)*packedWidth:])
			}
		}
		for r := range packedWidth {
			x, y, z := from[0][r], from[1][r], from[2][r]
			to[0][r], to[1][r], to[2][r] = x&^shortSpare+head, y&^shortSpare+head, z&^shortSpare+head
			to[3][r] = (reveal(x, 0) | reveal(y, 1) | reveal(z, 2)) + head
		}
	}
	return blockSize(head)
}

// blockSize is the number of words of a block with this head.
func blockSize(head uint32) int {
	if head == plainBlock {
		return shortSteps * packedWidth
	}
	return (shortSteps - shortSteps/shortGroup) * packedWidth
}

// chunks is the number of runs of shortChunk terms in a panel; each has its entry in starts.
func (w *Packed) chunks() int { return ceil(w.k, shortChunk) }

// shorten gives matrices of bfloat16 the short form, side by side in one piece of memory, if the machine has
// instructions for it and it saves memory. It returns the other matrices.
func shorten(packed []*Packed, from []Matrix) (others []*Packed) {
	total := 0
	for i, w := range packed {
		if canShorten() && w.n > 0 && w.k > 0 && w.k%shortTerms == 0 {
			if size := w.shortLayout(from[i]); size < w.words() {
				total += size
				continue
			}
			w.heads, w.starts = nil, nil
		}
		others = append(others, w)
	}
	all := hugepage.Make[uint32](total)
	for i, w := range packed {
		if w.heads != nil {
			size := w.starts[len(w.starts)-1]
			w.short, all = all[:size:size], all[size:]
			w.fillShort(from[i])
		}
	}
	return others
}

// blocks is the number of blocks in a panel.
func (w *Packed) blocks() int { return w.k / shortTerms }

// shortLayout sets the heads of all blocks and where chunks start, and returns the number of words in the short form.
func (w *Packed) shortLayout(from Matrix) int {
	blocks, size := w.blocks(), 0
	w.heads = make([]uint32, w.panels()*blocks)
	w.shortBlocks(from, func(i, rows int, x []float32, half []byte) {
		if half != nil {
			w.heads[i] = w.headOfHalf(half, rows)
		} else {
			w.heads[i] = w.head(x, rows)
		}
	})
	w.starts = make([]int, 0, w.panels()*w.chunks()+1)
	for i, head := range w.heads {
		if i%blocks*shortTerms%shortChunk == 0 {
			w.starts = append(w.starts, size)
		}
		size += blockSize(head)
	}
	w.starts = append(w.starts, size)
	return size
}

// head returns the head of a block of n rows that are k floats apart.
func (w *Packed) head(rows []float32, n int) uint32 {
	low, high := uint32(math.MaxUint32), uint32(0) // magnitudes, which are in the order of their bits, rounded or not
	for j := range n {
		row := (*[shortTerms]float32)(rows[j*w.k:])
		for i := 0; i < shortTerms; i += 4 { // four at a time do not wait for each other
			a, b := math.Float32bits(row[i])&^(1<<31), math.Float32bits(row[i+1])&^(1<<31)
			c, d := math.Float32bits(row[i+2])&^(1<<31), math.Float32bits(row[i+3])&^(1<<31)
			low, high = min(low, min(a, b), min(c, d)), max(high, max(a, b), max(c, d))
		}
	}
	return w.headOf(low, high)
}

// headOf returns the head of a block whose magnitudes are between two, as the bits of float32.
func (w *Packed) headOf(low, high uint32) uint32 {
	low, high = w.bits(math.Float32frombits(low))>>23, w.bits(math.Float32frombits(high))>>23
	if high-low >= shortRange {
		return plainBlock
	}
	return low * shortOnes << 7
}

// fillShort writes all blocks.
func (w *Packed) fillShort(from Matrix) {
	ends := make([]int, len(w.heads)+1) // of blocks
	for i, head := range w.heads {
		ends[i+1] = ends[i] + blockSize(head)
	}
	w.shortBlocks(from, func(i, rows int, x []float32, half []byte) {
		var words shortWords
		for r := range rows {
			if half != nil {
				words.setHalf(w, r, half[2*r*w.k:])
			} else {
				words.setRow(w, r, x[r*w.k:])
			}
		}
		for s := range shortSteps { // for missing rows: any number that has a code
			for r := rows; r < packedWidth; r++ {
				words[s*packedWidth+r] = w.heads[i]
			}
		}
		words.put(w.short[ends[i]:], w.heads[i])
	})
}

// shortBlocks calls f on all cores with each block and its rows, which begin at x and are k floats apart, or at half
// where they are bfloat16 numbers.
func (w *Packed) shortBlocks(from Matrix, f func(i, rows int, x []float32, half []byte)) {
	blocks := w.blocks()
	each := func(lo, hi int, x []float32, half []byte) {
		for i := lo * blocks; i < hi*blocks; i++ {
			j := i / blocks * packedWidth
			at, rows := (j-lo*packedWidth)*w.k+i%blocks*shortTerms, min(packedWidth, w.n-j)
			if half != nil {
				f(i, rows, nil, half[2*at:])
			} else {
				f(i, rows, x[at:], nil)
			}
		}
	}
	w.eachPiece(func(lo, hi, j, n int) {
		if from.BF16 != nil {
			from.BF16(j, n, func(x []byte) { each(lo, hi, nil, x) })
		} else {
			from.Rows(j, n, func(x []float32) { each(lo, hi, x, nil) })
		}
	})
}

// headOfHalf is head of rows of bfloat16 numbers.
func (w *Packed) headOfHalf(rows []byte, n int) uint32 {
	low, high := uint64(math.MaxUint16), uint64(0)
	for j := range n {
		row := (*[2 * shortTerms]byte)(rows[2*j*w.k:])
		for i := 0; i < len(row); i += 8 {
			four := binary.LittleEndian.Uint64(row[i:]) & 0x7fff_7fff_7fff_7fff
			a, b, c, d := four&0xffff, four>>16&0xffff, four>>32&0xffff, four>>48
			low, high = min(low, min(a, b), min(c, d)), max(high, max(a, b), max(c, d))
		}
	}
	return w.headOf(uint32(low)<<16, uint32(high)<<16)
}

// setHalf is setRow of bfloat16 numbers.
func (words *shortWords) setHalf(w *Packed, r int, terms []byte) {
	row := (*[2 * shortTerms]byte)(terms)
	for s := range shortSteps {
		pair := bits.RotateLeft32(binary.LittleEndian.Uint32(row[4*s:]), 16) // the first term is above
		if !w.exact {
			pair = unlessTiny(pair&^0xffff) | unlessTiny(pair<<16)>>16 // they need no rounding
		}
		words[s*packedWidth+r] = pair
	}
}

// setRow sets the words of a row, packedWidth apart, to its terms.
func (words *shortWords) setRow(w *Packed, r int, terms []float32) {
	row := (*[shortTerms]float32)(terms)
	if w.exact { // as w.bits, which is not inlined
		for s := range shortSteps {
			words[s*packedWidth+r] = bf16Bits(row[2*s]) | bf16Bits(row[2*s+1])>>16
		}
		return
	}
	for s := range shortSteps {
		words[s*packedWidth+r] = termBits(row[2*s]) | termBits(row[2*s+1])>>16
	}
}

// pairTerm is term i%2 of a word.
func pairTerm(word uint32, i int) float32 {
	return math.Float32frombits(word << (16 * (i % 2)) & 0xffff0000)
}

// shortRows sets dst (n, k) to n rows from row j on, which are of one panel.
func (w *Packed) shortRows(dst []float32, j, n int) {
	var words shortWords
	src := w.short[w.starts[j/packedWidth*w.chunks()]:]
	for b, head := range w.heads[j/packedWidth*w.blocks():][:w.blocks()] {
		src = src[words.get(src, head):]
		for r := range n {
			row := (*[shortTerms]float32)(dst[r*w.k+b*shortTerms:])
			for i := range shortSteps {
				word := words[i*packedWidth+j%packedWidth+r]
				row[2*i], row[2*i+1] = pairTerm(word, 0), pairTerm(word, 1)
			}
		}
	}
}

// unpackShort sets dst[p·48 + j] to term k + p of column j of a panel. k is a multiple of shortChunk.
func (w *Packed) unpackShort(dst []float32, panel, k, terms int) {
	var words shortWords
	src := w.short[w.starts[panel*w.chunks()+k/shortChunk]:]
	for _, head := range w.heads[panel*w.blocks()+k/shortTerms:][:terms/shortTerms] {
		src = src[words.get(src, head):]
		for i := range shortTerms {
			for j := range packedWidth {
				dst[i*packedWidth+j] = pairTerm(words[i/2*packedWidth+j], i)
			}
		}
		dst = dst[shortTerms*packedWidth:]
	}
}
