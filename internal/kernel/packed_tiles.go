package kernel

import "unsafe"

// expandedTerms and expandedPanels are how much of a matrix in the short form is expanded at a time, for tiles. Two
// panels are three pairs of tiles.
const expandedTerms, expandedPanels = 512, 2

var _ [unpackedTerms*packedWidth - expandedPanels*expandedTerms/2*packedWidth]struct{} // it fits panelWords

// tilesCached is the number of words of B that products by tiles read from the second-level cache for all rows of A.
const tilesCached = 192 << 10

// panelTiles computes the columns of panels lo to hi by tiles.
func (p *packedProduct) panelTiles(lo, hi int) {
	many := max(expandedPanels, tilesCached/(p.panelSteps()*packedWidth))
	if p.short != nil {
		many = expandedPanels
		buf := panelPool.Get().(*panelWords)
		defer panelPool.Put(buf)
		for ; lo < hi; lo += many {
			p.shortTiles(buf, lo, min(hi, lo+many))
		}
		return
	}
	for ; lo < hi; lo += many {
		at, _ := p.at(lo * packedWidth)
		words := unsafe.Slice((*float32)(unsafe.Pointer(&p.bf16[at])), (len(p.bf16)-at)/2)
		p.tiles(lo, min(hi, lo+many), 0, p.k, words, p.panelSteps()*packedWidth)
	}
}

// shortTiles is panelTiles for panels in the short form.
func (p *packedProduct) shortTiles(buf *panelWords, lo, hi int) {
	const apart = expandedTerms / 2 * packedWidth
	for k := 0; k < p.k; k += expandedTerms {
		terms := min(expandedTerms, p.k-k)
		for panel := lo; panel < hi; panel++ {
			words, heads := p.chunkOf(panel, k)
			vecExpandShort(terms/shortTerms, words, heads, (*uint32)(unsafe.Pointer(&buf[(panel-lo)*apart])))
		}
		p.tiles(lo, hi, k, terms, buf[:], apart)
	}
}

// tiles adds a number of terms from k on to the columns of panels lo to hi. Their words are apart words apart.
func (p *packedProduct) tiles(lo, hi, k, terms int, words []float32, apart int) {
	j := lo * packedWidth
	var bias *float32
	if k == 0 && p.bias != nil {
		bias = &p.bias[j]
	}
	multiplyTiles(p.m, min(p.n, hi*packedWidth)-j, ceil(terms, 2), p.x[k/2:], p.ldx, words, apart, p.y[j:], p.ldy, bias,
		k > 0)
}
