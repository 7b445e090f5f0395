package kernel

import "unsafe"

// expandedTerms and expandedPanels are the size of the part of a matrix in the short form that is expanded at a time,
// for tiles. Two panels are three pairs of tiles.
const expandedTerms, expandedPanels = 512, 2

var _ [unpackedTerms*packedWidth - expandedPanels*expandedTerms/2*packedWidth]struct{} // it fits panelWords

// tilesCached is the number of words of B that stay in the second-level cache for all rows of A.
const tilesCached = 192 << 10

// panelTiles computes the columns of panels lo to hi by tiles.
func (p *packedProduct) panelTiles(lo, hi int) {
	if p.short != nil {
		p.shortTiles(lo, hi)
		return
	}
	many := max(expandedPanels, tilesCached/(p.panelSteps()*packedWidth))
	for ; lo < hi; lo += many {
		at, _ := p.at(lo * packedWidth)
		words := unsafe.Slice((*float32)(unsafe.Pointer(&p.bf16[at])), (len(p.bf16)-at)/2)
		p.tiles(lo, min(hi, lo+many), 0, p.k, words, p.panelSteps()*packedWidth)
	}
}

// shortTiles is panelTiles for panels in the short form.
func (p *packedProduct) shortTiles(lo, hi int) {
	if p.m == 1 {
		for ; lo < hi; lo++ {
			p.shortRow(lo)
		}
		return
	}
	const apart = expandedTerms / 2 * packedWidth
	buf := panelPool.Get().(*panelWords)
	defer panelPool.Put(buf)
	for ; lo < hi; lo += expandedPanels {
		end := min(hi, lo+expandedPanels)
		for k := 0; k < p.k; k += expandedTerms {
			terms := min(expandedTerms, p.k-k)
			for panel := lo; panel < end; panel++ {
				words, heads := p.chunkOf(panel, k)
				vecExpandShort(terms/shortTerms, words, heads, (*uint32)(unsafe.Pointer(&buf[(panel-lo)*apart])))
			}
			p.tiles(lo, end, k, terms, buf[:], apart)
		}
	}
}

// tiles adds the given number of terms from k on to the columns of panels lo to hi. Their words are apart words apart.
func (p *packedProduct) tiles(lo, hi, k, terms int, words []float32, apart int) {
	j := lo * packedWidth
	var bias *float32
	if k == 0 && p.bias != nil {
		bias = &p.bias[j]
	}
	multiplyTiles(p.m, min(p.n, hi*packedWidth)-j, ceil(terms, 2), p.x[k/2:], p.ldx, words, apart, p.y[j:], p.ldy, bias,
		k > 0)
}

// rowTerms is the number of terms of a panel in a call for a single row, some 100 µs: a multiple of shortChunk.
const rowTerms = 1 << 13

// shortRow computes the columns of a panel in the short form for a single row. Reading it from memory takes longer than
// expanding it, and the expanded form need not be stored.
func (p *packedProduct) shortRow(panel int) {
	j := panel * packedWidth
	cols := min(packedWidth, p.n-j)
	var own [packedWidth]float32 // columns past the last one of y go here
	var start *float32
	if p.bias != nil {
		copy(own[:], p.bias[j:][:cols])
		start = &own[0]
	}
	for k := 0; k < p.k; k += rowTerms {
		words, heads := p.chunkOf(panel, k)
		vecShortRow(min(rowTerms, p.k-k)/shortTerms, &p.x[k/2], words, heads, start, &own[0])
		start = &own[0]
	}
	copy(p.y[j:][:cols], own[:])
}
