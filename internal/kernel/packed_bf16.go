package kernel

import (
	"math"
	"sync"
	"time"
	"unsafe"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// Products with weights in bfloat16 round x to bfloat16 as well: VDPBF16PS multiplies pairs of both, twice as fast as
// float32. It adds one product after the other to the sum and rounds to float32 after each, as fused multiply-adds do,
// but treats denormal numbers as zero. If operands below 2^-56 are treated as zero, nothing becomes denormal: products
// and sums are multiples of 2^-126. (And a product of two bfloat16 is exactly a float32, so it makes no difference
// whether it is rounded, except for its size: see overflown.) So every level computes the same bits, except those with
// tiles, which sum in another order: see gemm_tiles.go.

// tinyTerm holds the bits of 2^-56 in float32, the smallest operand in bfloat16 that is not treated as zero.
const tinyTerm = 0x23800000

// termBits returns the bits of x as an operand: rounded to bfloat16, the lower half zero.
func termBits(x float32) uint32 {
	return unlessTiny(bf16Bits(x))
}

// unlessTiny returns bits, or zero if they are those of a tiny term.
func unlessTiny(bits uint32) uint32 {
	if bits&^(1<<31) >= tinyTerm {
		return bits
	}
	return 0
}

// pairTerms is the number of terms of a sum before it is added to y. Every level can sum that many without a break.
const pairTerms = 256

var _, _ [0]struct{} = [pairTerms % shortChunk]struct{}{}, [blockedK % shortChunk]struct{}{}

// pairRows is the number of rows of x whose sums stay in registers. Up to fewPairs rows are computed pairRows at a
// time; with more rows the first pairRows expand the short form for the others.
const pairRows, fewPairs = 8, 16

// inPairs reports whether products with weights in bfloat16 multiply pairs: by tiles, or by VDPBF16PS if that is faster
// than products of float32, which give the same bits.
func inPairs() bool {
	return cpu.has(packedPairsCode) && (cpu.has(gemmTilesCode) || pairsPay())
}

// pairsPay reports whether VDPBF16PS is faster, which is measured once in some 50 µs. In the time of an FMA a Zen 4
// computes one. An Intel Xeon of the fifth generation computes 0.22: it has tiles for that, which a virtual machine may
// hide.
var pairsPay = sync.OnceValue(func() bool {
	const words = pairTerms / 2
	var x [pairRows * pairTerms]float32
	var w [pairTerms * packedWidth]uint16
	var y [pairRows * packedWidth]float32
	fastest := func(f func(m, steps int, x *float32, ldx int, w *uint16, y *float32, ldy int, bias *float32,
		add bool)) time.Duration {
		best := time.Duration(math.MaxInt64)
		for range 8 {
			start := time.Now()
			f(pairRows, words, &x[0], pairTerms, &w[0], &y[0], packedWidth, nil, false)
			best = min(best, time.Since(start))
		}
		return best
	}
	return fastest(vecPackedPairs) < fastest(vecPackedBF16)
})

// roundedX is x as an operand: for pairs, rows of words, as in a panel, otherwise rows of float32. Rows are ld apart.
// Those of odd length are followed by a zero.
type roundedX struct {
	x  []float32
	ld int
}

var roundedXPool = sync.Pool{New: func() any { return new(roundedX) }}

// set rounds m rows of k floats.
func (r *roundedX) set(m, k int, x []float32, ldx int) {
	r.ld = wordsWidth(2 * k)
	if inPairs() {
		r.ld = wordsWidth(k)
	}
	if cap(r.x) < m*r.ld {
		r.x = make([]float32, m*r.ld)
	}
	r.x = r.x[:m*r.ld]
	if k == 0 {
		return
	}
	if m*k <= cpu.grainWork() || parallel.Workers() == 1 {
		r.rows(0, m, k, x, ldx)
		return
	}
	r.shared(m, k, x, ldx)
}

// shared rounds on all cores. It is its own function so that a single core makes no garbage.
func (r *roundedX) shared(m, k int, x []float32, ldx int) {
	parallel.For(m, max(1, cpu.grainWork()/k), func(lo, hi int) { r.rows(lo, hi, k, x, ldx) })
}

// rows rounds the rows lo to hi.
func (r *roundedX) rows(lo, hi, k int, x []float32, ldx int) {
	if inPairs() {
		few := max(1, roundWork/k)
		for i := lo; i < hi; i += few {
			vecRoundPacked(min(few, hi-i), k, &x[i*ldx], ldx, &r.x[i*r.ld], r.ld)
		}
		return
	}
	for i := lo; i < hi; i++ {
		row := r.x[i*r.ld:][:roundUp(k, 2)]
		row[len(row)-1] = 0
		roundTerms(row[:k], x[i*ldx:])
	}
}

// roundTerms sets y to x as operands.
func roundTerms(y, x []float32) {
	if x = x[:len(y)]; cpu.has(roundTermsCode) {
		vecRoundTerms(len(y), &y[0], &x[0])
		return
	}
	for i, v := range x {
		y[i] = math.Float32frombits(termBits(v))
	}
}

// chunkOf returns the short form of the terms of a panel from k on, a multiple of shortChunk, and the heads of its
// blocks.
func (w *Packed) chunkOf(panel, k int) (words, heads *uint32) {
	return &w.short[w.starts[panel*w.chunks()+k/shortChunk]], &w.heads[panel*w.blocks()+k/shortTerms]
}

// sumsBF16 calls the assembly for block.
func (p *packedProduct) sumsBF16(i, m, j, k int, y *float32, ldy int, bias *float32, add bool) {
	terms := min(p.blockTerms(), p.k-k)
	at, step := p.at(j)
	at += k / 2 * step
	pairs, first := inPairs() && !p.exact, k
	if pairs {
		first = k / 2
	}
	x := &p.x[i*p.ldx+first]
	switch {
	case p.short == nil && pairs:
		vecPackedPairs(m, ceil(terms, 2), x, p.ldx, &p.bf16[at], y, ldy, bias, add)
	case p.short == nil:
		vecPackedBF16(m, ceil(terms, 2), x, p.ldx, &p.bf16[at], y, ldy, bias, add)
	default:
		words, heads := p.chunkOf(j/packedWidth, k)
		if pairs {
			vecShortPairs(m, terms/shortTerms, x, p.ldx, words, heads, y, ldy, bias, add)
		} else {
			vecShortBF16(m, terms/shortTerms, x, p.ldx, words, heads, y, ldy, bias, add)
		}
	}
}

// unpackedTerms is the number of terms of a panel that are unpacked to float32 at a time. It is a multiple of blockK,
// blockedK and pairTerms, so that the sums equal those of one product.
const unpackedTerms = 768

// panelWords has room for the words or the floats of a block of a panel.
type panelWords [unpackedTerms * packedWidth]float32

var panelPool = sync.Pool{New: func() any { return new(panelWords) }}

// panelPairs computes the columns of the panel that begins with column j as a product of words.
func (p *packedProduct) panelPairs(j int) {
	buf := panelPool.Get().(*panelWords)
	defer panelPool.Put(buf)
	for k := 0; k < p.k; k += pairTerms {
		p.pairsBlock(buf, j, k)
	}
}

// pairsBlock adds the terms from k on to the columns from j on.
func (p *packedProduct) pairsBlock(buf *panelWords, j, k int) {
	cols, words := min(packedWidth, p.n-j), ceil(min(pairTerms, p.k-k), 2)
	at, step := p.at(j)
	var bias *float32
	if k == 0 && p.bias != nil {
		bias = &p.bias[j]
	}
	w, done := &buf[0], 0 // number of rows done
	switch {
	case p.short == nil:
		w = (*float32)(unsafe.Pointer(&p.bf16[at+k/2*step]))
	case cols == packedWidth:
		from, heads := p.chunkOf(j/packedWidth, k)
		vecExpandPairs(words/shortSteps, &p.x[k/2], p.ldx, from, heads, &p.y[j], p.ldy, bias, k > 0,
			(*uint32)(unsafe.Pointer(w)))
		done = pairRows
	default:
		from, heads := p.chunkOf(j/packedWidth, k)
		vecExpandShort(words/shortSteps, from, heads, (*uint32)(unsafe.Pointer(w)))
	}
	rows := roundUp(callWork/(cols*words), unitM) // rows of a call
	for i := done; i < p.m; i += rows {
		vecGemmPairs(min(rows, p.m-i), cols, words, &p.x[i*p.ldx+k/2], p.ldx, 1, w, packedWidth, 0,
			&p.y[i*p.ldy+j], p.ldy, bias, k > 0)
	}
}

// panelUnpacked computes the columns of the panel that begins with column j, from its weights in float32.
func (p *packedProduct) panelUnpacked(j int) {
	buf := panelPool.Get().(*panelWords)
	defer panelPool.Put(buf)
	at, step := p.at(j)
	terms := unpackedTerms
	if p.roundsX() {
		terms = pairTerms
	}
	for k := 0; k == 0 || k < p.k; k += terms {
		depth := min(terms, p.k-k)
		if p.short != nil {
			p.unpackShort(buf[:], j/packedWidth, k, depth)
		} else {
			unpackBF16(buf[:], p.bf16[at+k/2*step:], depth)
		}
		bias := p.biasFrom(j)
		if k > 0 {
			bias = nil
		}
		GemmInline(Product{
			Op: NN, M: p.m, N: min(packedWidth, p.n-j), K: depth, A: p.x[k:], LDA: p.ldx, B: buf[:], LDB: packedWidth,
			C: p.y[j:], LDC: p.ldy, Bias: bias, Add: k > 0,
		})
	}
	if !cpu.has(gemmCode) && p.roundsX() {
		p.overflown(j)
	}
}

// overflown recomputes infinite and NaN results in the panel that begins with column j. If products are rounded before
// they are added, one may be infinite that would leave the sum finite.
func (p *packedProduct) overflown(j int) {
	var row []float32
	for c := j; c < min(j+packedWidth, p.n); c++ {
		known := false
		for i := range p.m {
			y := &p.y[i*p.ldy+c]
			if *y-*y == 0 {
				continue
			}
			if !known {
				if row == nil {
					row = make([]float32, p.k)
				}
				p.Row(row, c)
				known = true
			}
			for k := 0; k < p.k; k += pairTerms {
				sum := float32(0)
				for t := k; t < min(p.k, k+pairTerms); t++ {
					sum = addProduct(sum, p.x[i*p.ldx+t], row[t])
				}
				switch {
				case k > 0:
					*y += sum
				case p.bias != nil:
					*y = sum + p.bias[c]
				default:
					*y = sum
				}
			}
		}
	}
}

// addProduct returns sum + x·w, rounded once.
func addProduct(sum, x, w float32) float32 {
	p, s := float64(x)*float64(w), float64(sum) // exact
	y := p + s
	v := y - p
	if lost := (p - (y - v)) + (s - v); lost != 0 && math.Float64bits(y)&1 == 0 { // to odd: rounding again is correct
		y = math.Nextafter(y, math.Copysign(math.Inf(1), lost))
	}
	return float32(y)
}

// unpackBF16 sets dst[p·48 + j] to term p of column j of a panel.
func unpackBF16(dst []float32, src []uint16, terms int) {
	for k := range terms {
		words := src[k/2*2*packedWidth:][:2*packedWidth]
		row := dst[k*packedWidth:][:packedWidth]
		for j := range row {
			row[j] = math.Float32frombits(uint32(words[2*j+1-k%2]) << 16)
		}
	}
}
