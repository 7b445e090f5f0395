package kernel

import "sync"

// The bfloat16 product works on words, which are pairs of terms, as the float32 product works on floats. It has the
// same tiles in registers and is twice as fast. So the time to make words weighs twice as much, and both operands need
// it. A block of B with many columns, which may lie in the third-level cache, is rounded once for all rows. A is
// rounded by chunks of rows; a chunk stays in the second-level cache together with the part of B that a call reads.
const (
	pairsK     = 1024         // terms summed before they are added to C: as many as fit the buffers
	pairsTN    = 2 * blockedK // the same for Aᵀ·B, where shorter columns of words are 1 to 3 % faster
	pairsN     = grainN       // columns of C at a time, a multiple of blockedN
	pairsM     = 192          // rows of C at a time, a multiple of 16 and of unitM
	pairsPanel = 48           // columns of a panel of B
	roundWork  = 1 << 18      // floats rounded in a call of assembly, some 60 µs

	// The time to round a row of B or a column of A, in the unit of fetched and copied.
	roundedOnly = 40
	transposed  = 56 // rounded and transposed
)

// pairBuffers holds a chunk of A and a block of B as words for a goroutine.
type pairBuffers struct {
	a [pairsM * (pairsK/2 + panelGap)]float32
	b [pairsN / pairsPanel * (pairsPanel*pairsK/2 + panelGap)]float32

	rows [pairsM * (pairsTN/2 + panelGap)]float32 // of Aᵀ, for tiles
}

var pairPool = sync.Pool{New: func() any { return new(pairBuffers) }}

// pairs computes a product of k ≥ 1 terms with the given number of workers, at level avx512bf16.
func (p *Product) pairs(workers int) {
	if workers == 1 {
		p.pairsTile(0, p.M, 0, p.N)
	} else {
		p.pairsShared(workers)
	}
}

// pairsShared distributes the tiles of C over all cores.
func (p Product) pairsShared(workers int) {
	extraRows := roundedOnly
	if p.Op == NT {
		extraRows = transposed
	}
	p.share(workers, extraRows, roundedOnly, p.pairsTile)
}

// pairsTile computes C[i0:i1, j0:j1].
func (p *Product) pairsTile(i0, i1, j0, j1 int) {
	buf := pairPool.Get().(*pairBuffers)
	defer pairPool.Put(buf)
	for j := j0; j < j1; j += pairsN {
		n := min(pairsN, j1-j)
		for k := 0; k < p.K; k += p.terms() {
			depth := min(p.terms(), p.K-k)
			wordsOfB(buf.b[:], buf.a[:], p, j, n, k, depth)
			for i := i0; i < i1; i += pairsM {
				m := min(pairsM, i1-i)
				p.pairsBlock(buf.b[:], p.panelOf(depth), buf.wordsOfA(p, i, m, k, depth), i, m, j, n, k, depth)
			}
		}
	}
}

// pairsBlock adds depth terms from k on to C[i:i+m, j:j+n], from words of A and B. The panels of B are panel words
// apart.
func (p *Product) pairsBlock(inPanels []float32, panel int, a operand, i, m, j, n, k, depth int) {
	words := ceil(depth, 2)
	for at := 0; at < n; at += blockedN {
		cols := min(blockedN, n-at)
		bias, add := p.epilogue(j+at, k)
		if cpu.has(gemmTilesCode) {
			multiplyTiles(m, cols, words, a.at, a.s, inPanels[at/pairsPanel*panel:], panel, p.C[i*p.LDC+j+at:], p.LDC,
				bias, add)
			continue
		}
		b := &inPanels[at/pairsPanel*panel]
		rows := roundUp(callWork/(cols*words), unitM) // rows of a call
		for r := 0; r < m; r += rows {
			vecGemmPairs(min(rows, m-r), cols, words, &a.at[r*a.s], a.s, a.t, b, pairsPanel, panel,
				&p.C[(i+r)*p.LDC+j+at], p.LDC, bias, add)
		}
	}
}

// wordsOfA rounds depth terms from k on of rows i to i+m of A.
func (buf *pairBuffers) wordsOfA(p *Product, i, m, k, depth int) operand {
	width := wordsWidth(depth)
	if p.Op == TN {
		vecRoundColumns(depth, m, &p.A[k*p.LDA+i], p.LDA, &buf.a[0], pairsM, 0)
		if !cpu.has(gemmTilesCode) {
			return operand{buf.a[:], 1, pairsM}
		}
		transpose(buf.rows[:], buf.a[:], m, ceil(depth, 2), pairsM, width)
		return operand{buf.rows[:], width, 1}
	}
	vecRoundRows(m, depth, &p.A[i*p.LDA+k], p.LDA, &buf.a[0], width)
	return operand{buf.a[:], width, 1}
}

// wordsOfB rounds depth terms from k on of columns j to j+n of B, and stores them in panels. scratch has room for a
// panel.
func wordsOfB(dst, scratch []float32, p *Product, j, n, k, depth int) {
	words, panel := ceil(depth, 2), p.panelOf(depth)
	if p.Op != NT {
		rows := roundUp(roundWork/n, 2) // rows of a call, which reads them from beginning to end
		for r := 0; r < depth; r += rows {
			vecRoundColumns(min(rows, depth-r), n, &p.B[(k+r)*p.LDB+j], p.LDB, &dst[r/2*pairsPanel], pairsPanel, panel)
		}
		return
	}
	width := wordsWidth(depth)
	for at := 0; at < n; at += pairsPanel {
		cols := min(pairsPanel, n-at)
		vecRoundRows(cols, depth, &p.B[(j+at)*p.LDB+k], p.LDB, &scratch[0], width)
		transpose(dst[at/pairsPanel*panel:], scratch, words, cols, width, pairsPanel)
	}
}

// wordsWidth returns the distance, in words, of rows of depth terms. It keeps them out of the same cache sets.
func wordsWidth(depth int) int { return roundUp(ceil(depth, 2), 16) + panelGap }
