package kernel

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/hippo-ssm/hippo/internal/hugepage"
)

// The short form of a panel of bfloat16 is lossless and takes 12 bits instead of 16. A number can have 256 exponents.
// Weights are normally distributed at the start of training and after it, and 768 of them hardly ever need more than 16
// consecutive exponents. (DFloat11, arXiv:2504.11651, measured the same in published models and uses a Huffman code.)
// A panel is a sequence of blocks; a block has 8 words of each of the panel's 48 rows. The head of a block is a 32-bit
// number. Subtracting it from each word turns every exponent into a code of 4 bits, and the 4 bits between code and
// sign become zero. So the last of a group of 4 words is not stored: its bits fill these gaps in the other three, four
// bits per number from the lowest on; the third takes the last three bits of the code, and the sign. The bits of a row
// never leave its lane, so shifts and masks alone restore a word. A block whose exponents are further apart has the
// head plainBlock and stores its words unchanged. Heads are stored elsewhere, so that vectors are aligned to cache
// lines.
//
// In float32 the same would save 4 bits of 32, but shifts and masks cost as much as that gains.
const (
	shortSteps = 8       // words of a row in a block
	shortRange = 16      // number of exponents that a code can distinguish
	plainBlock = 1 << 31 // larger than any exponent
	shortGroup = 4       // words in a group; the last is stored in the others
	shortChunk = 128     // terms; calls of assembly take one or several times as many
	shortTerms = 2 * shortSteps
	shortOnes  = 1<<16 | 1 // the lowest bit of each number of a word
)

// shortWords holds the words of a block, step by step.
type shortWords [shortSteps * packedWidth]uint32

// hiddenPart returns the bits of the last word of a group that word i stores, and how far they are shifted to the left
// for that. The third word also stores the signs, shifted to the right by one.
func hiddenPart(i int) (bits uint32, shift int) {
	if i == shortGroup-2 {
		return 7 * shortOnes << 8, 3
	}
	return 15 * shortOnes << (4 * i), 11 - 4*i
}

const shortSigns = shortOnes << 15

// shortSpare holds the bits of a word of a block that its codes leave free.
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

// get reads the words of the block at the start of src and returns the number of words that it takes there.
func (words *shortWords) get(src []uint32, head uint32) int {
	if head == plainBlock {
		return copy(words[:], src[:len(words)])
	}
	type lanes = [packedWidth]uint32 // arrays, so that no bounds are checked
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

// blockSize returns the number of words of a block with this head.
func blockSize(head uint32) int {
	if head == plainBlock {
		return shortSteps * packedWidth
	}
	return (shortSteps - shortSteps/shortGroup) * packedWidth
}

// chunks returns the number of runs of shortChunk terms in a panel; each has its entry in starts.
func (w *Packed) chunks() int { return ceil(w.k, shortChunk) }

// shorten converts matrices of bfloat16 to the short form, side by side in one piece of memory, if the machine has
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

// blocks returns the number of blocks in a panel.
func (w *Packed) blocks() int { return w.k / shortTerms }

// shortLayout sets the heads of all blocks and where chunks start, and returns the number of words in the short form.
func (w *Packed) shortLayout(from Matrix) int {
	blocks, size := w.blocks(), 0
	w.heads = make([]uint32, w.panels()*blocks)
	w.halves(from, func(panel, rows int, x []byte) {
		heads := w.heads[panel*blocks:][:blocks]
		const few = 256 // number of blocks in a call
		for b := 0; b < blocks; b += few {
			vecHalfRanges(rows, min(few, blocks-b), &halvesOf(x)[b*shortTerms], w.k, &heads[b])
		}
		for i, found := range heads {
			heads[i] = w.headOf(found<<16, found&^0xffff)
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

// headOf returns the head of a block whose magnitudes are between low and high, as the bits of float32.
func (w *Packed) headOf(low, high uint32) uint32 {
	if w.roundsX() {
		low, high = unlessTiny(low), unlessTiny(high)
	}
	low, high = low>>23, high>>23
	if high-low >= shortRange {
		return plainBlock
	}
	return low * shortOnes << 7
}

// fillShort writes all blocks, a chunk at a time so that it stays in the cache.
func (w *Packed) fillShort(from Matrix) {
	w.halves(from, func(panel, rows int, x []byte) {
		var words [shortChunk / 2 * packedWidth]float32
		for k := 0; k < w.k; k += shortChunk {
			terms := min(shortChunk, w.k-k)
			transpose(words[:], wordsOf(x)[k/2:], terms/2, rows, w.k/2, packedWidth)
			heads := w.heads[panel*w.blocks()+k/shortTerms:][:terms/shortTerms]
			for r := rows; r < packedWidth; r++ { // missing rows get any number that has a code
				for s := range terms / 2 {
					head := bits.RotateLeft32(heads[s/shortSteps], 16)
					words[s*packedWidth+r] = math.Float32frombits(head)
				}
			}
			vecShorten(len(heads), (*uint32)(unsafe.Pointer(&words[0])), &heads[0], w.least(),
				&w.short[w.starts[panel*w.chunks()+k/shortChunk]])
		}
	})
}

// pairTerm returns term i%2 of a word.
func pairTerm(word uint32, i int) float32 {
	return math.Float32frombits(word << (16 * (i % 2)) & 0xffff0000)
}

// shortRows sets dst (n, k) to n rows from row j on, which are in one panel.
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
