package kernel

import (
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// The product in assembly computes C from blocks of B, of blockedK terms and blockedN columns. A block stays in the
// second-level cache while the rows of A stream by. Bᵀ, or a large B, is first packed into panels, which have as many
// columns as a tile of C in registers, row after row. A is read in place, except for a large Aᵀ: a chunk of it is
// copied right before use.
const (
	blockedK = 384 // terms summed before they are added to C
	blockedN = 384 // columns of C at a time, a multiple of unitN
	unitN    = 48  // a multiple of the width of every tile in registers (16 and 48)
	unitM    = 24  // a multiple of the height of every tile (6 and 8)
	chunkM   = 96  // rows of C for which Aᵀ is copied at a time, a multiple of 16 and of unitM
	panelGap = 16  // floats between panels: without them panels would fall into the same sets of the cache

	inPlace  = 1 << 16 // a block that spans fewer floats is read in place
	fewRows  = 96      // up to this many rows of C, copying B is not worth while
	callWork = 1 << 21 // multiply-adds in a call of assembly, some 40 µs
	dotWork  = 1 << 18 // floats of Bᵀ in a call for very few rows, some 40 µs
	dotsMost = 8       // up to this many rows of A, the product A·Bᵀ transposes B in registers
	grainN   = 1536    // the largest number of columns of C in a tile that a core computes
	dotCols  = 16      // columns at a time in the product for very few rows
)

// blocked computes a product of k ≥ 1 terms with the given number of workers.
func (p *Product) blocked(workers int) {
	switch {
	case p.Op == NT && p.M <= dotsMost && p.N >= dotCols && cpu.has(dotsCode):
		p.dots(workers)
	case workers == 1:
		p.blockedTile(0, p.M, 0, p.N)
	default:
		p.blockedShared(workers)
	}
}

// The time to fetch a row of B or a column of A while other cores read memory too, counted in multiply-adds per
// element.
const (
	fetched = 16 // in place
	copied  = 32 // copied or transposed
)

// blockedShared distributes the tiles of C over all cores.
func (p Product) blockedShared(workers int) {
	extraRows, extraCols := fetched, fetched
	if p.Op == NT || p.LDB*min(p.K, blockedK) >= inPlace {
		extraRows = copied
	}
	if p.Op == TN {
		extraCols = copied
	}
	p.share(workers, extraRows, extraCols, p.blockedTile)
}

// share computes C tile by tile on all cores.
func (p *Product) share(workers, extraRows, extraCols int, compute func(i0, i1, j0, j1 int)) {
	rows, cols := p.grid(workers, extraRows, extraCols)
	down, across := ceil(p.M, rows), ceil(p.N, cols)
	parallel.For(down*across, 1, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			i, j := t%down*rows, t/down*cols
			compute(i, min(p.M, i+rows), j, min(p.N, j+cols))
		}
	})
}

// grid returns the height and width of the tiles of C that cores compute. It tries 1 to 4 tiles per worker and takes
// the fastest. More tiles are easier to distribute evenly. But for each tile parts of A and B are fetched and packed,
// which takes as long as extraCols more columns and extraRows more rows.
func (p *Product) grid(workers, extraRows, extraCols int) (rows, cols int) {
	const (
		overhead = 1 << 16 // multiply-adds in the time that it takes to begin a tile
		uneven   = 0.05    // the part of a tile during which workers wait for one that began later
	)
	least := math.Inf(1)
	for across := ceil(p.N, grainN); ; across *= 2 {
		c := roundUp(ceil(p.N, across), cpu.panel())
		for each := 1; each <= 4; each++ {
			r := roundUp(ceil(p.M, max(each*workers/across, 1)), cpu.height())
			down, across := ceil(p.M, r), ceil(p.N, c)
			tiles := float64(down * across)
			mean := float64((p.M+down*extraRows)*(p.N+across*extraCols))/tiles*float64(p.K) + overhead
			longest := float64((r+extraRows)*(c+extraCols))*float64(p.K) + overhead
			if time := (math.Ceil(tiles/float64(workers))-1+uneven)*mean + longest; time < least {
				least, rows, cols = time, r, c
			}
		}
		if c == cpu.panel() || across > 4*workers {
			return rows, cols
		}
	}
}

// buffers holds a chunk of Aᵀ and a block of B in panels for a goroutine.
type buffers struct {
	a [blockedK * chunkM]float32
	b [blockedN * (blockedK + 1)]float32 // with the gaps of panels of 16 or more columns
}

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

// operand is A or B in the form that the assembly reads. Element (i, p) of A is at[i·s + p·t]; element (p, j) of B is
// at[j/w·s + j%w + p·t], where w is the width of a panel.
type operand struct {
	at   []float32
	s, t int
}

// blockedTile computes C[i0:i1, j0:j1].
func (p *Product) blockedTile(i0, i1, j0, j1 int) {
	depth := min(p.K, blockedK)
	t := tile{Product: p, i0: i0, i1: i1, chunk: i1 - i0}
	t.copyA = p.Op == TN && p.LDA*depth >= inPlace && j1-j0 > cpu.panel()
	t.copyB = p.Op == NT || p.LDB*depth >= inPlace && i1-i0 > fewRows
	if t.copyA || t.copyB {
		buf := bufferPool.Get().(*buffers)
		defer bufferPool.Put(buf)
		t.buf = buf
	}
	if t.copyA {
		t.chunk = chunkM
	}
	if p.Op == TN { // A and B have more rows than C has columns: use the cached parts of both before the next terms
		for k := 0; k < p.K; k += blockedK {
			for j := j0; j < j1; j += blockedN {
				t.block(j, min(blockedN, j1-j), k, min(blockedK, p.K-k))
			}
		}
		return
	}
	for j := j0; j < j1; j += blockedN {
		for k := 0; k < p.K; k += blockedK {
			t.block(j, min(blockedN, j1-j), k, min(blockedK, p.K-k))
		}
	}
}

// tile is rows i0 to i1 of a product.
type tile struct {
	*Product
	i0, i1, chunk int // the rows are computed in chunks
	copyA, copyB  bool
	buf           *buffers // nil if neither is copied
}

// block adds depth terms from k on to n columns from j on.
func (t *tile) block(j, n, k, depth int) {
	b := t.operandB(j, k)
	if t.copyB {
		b = panels(t.buf.b[:], t.Op, b.at, t.LDB, n, depth)
	}
	bias, add := t.epilogue(j, k)
	rows := roundUp(callWork/(n*depth), unitM) // rows of a call
	for i := t.i0; i < t.i1; i += t.chunk {
		m := min(t.chunk, t.i1-i)
		a := t.operandA(i, k)
		if t.copyA {
			vecCopy(depth, m, &a.at[0], t.LDA, &t.buf.a[0], chunkM, 0)
			a = operand{t.buf.a[:], 1, chunkM}
		}
		for r := 0; r < m; r += rows {
			vecGemm(min(rows, m-r), n, depth, &a.at[r*a.s], a.s, a.t, &b.at[0], b.t, b.s,
				&t.C[(i+r)*t.LDC+j], t.LDC, bias, add)
		}
	}
}

// operandA returns A in place, from row i of C and term k on.
func (p *Product) operandA(i, k int) operand {
	if p.Op == TN {
		return operand{p.A[k*p.LDA+i:], 1, p.LDA}
	}
	return operand{p.A[i*p.LDA+k:], p.LDA, 1}
}

// operandB returns B in place, from column j and term k on. Bᵀ cannot be used in place.
func (p *Product) operandB(j, k int) operand {
	if p.Op == NT {
		return operand{at: p.B[j*p.LDB+k:]}
	}
	return operand{p.B[k*p.LDB+j:], cpu.panel(), p.LDB}
}

// epilogue returns how to treat the sums of the block of terms from k on, for the columns from j on.
func (p *Product) epilogue(j, k int) (bias *float32, add bool) {
	if k == 0 && p.Bias != nil {
		bias = &p.Bias[j]
	}
	return bias, p.Add || k > 0
}

// panels puts k rows of n floats of B, or n rows of k floats of Bᵀ, into panels in dst.
func panels(dst []float32, op Op, src []float32, ld, n, k int) operand {
	width := cpu.panel()
	panel := width*k + panelGap
	if op == NT {
		for j := 0; j < n; j += width {
			transpose(dst[j/width*panel:], src[j*ld:], k, min(width, n-j), ld, width)
		}
	} else {
		vecCopy(k, n, &src[0], ld, &dst[0], width, panel)
	}
	return operand{dst, panel, width}
}

// transpose sets dst[p·width + r] = src[r·ld + p] for p < k and r < rows.
func transpose(dst, src []float32, k, rows, ld, width int) {
	r := 0
	for ; r+8 <= rows; r += 8 {
		vecPack(k, &src[r*ld], ld, &dst[r], width)
	}
	if r < rows && rows > 8 { // repeat some of the previous rows
		r = rows
		vecPack(k, &src[(r-8)*ld], ld, &dst[r-8], width)
	}
	for ; r < rows; r++ {
		for p, v := range src[r*ld:][:k] {
			dst[p*width+r] = v
		}
	}
}

// dots computes A·Bᵀ for few rows of A, which takes as long as reading B.
func (p *Product) dots(workers int) {
	if workers == 1 {
		p.dotColumns(0, p.N)
		return
	}
	q := *p // p must not escape when there is one worker
	cols := max(roundUp(p.N/(4*workers), dotCols), roundUp(cpu.grainWork()/p.K/2, dotCols))
	parallel.For(p.N, cols, q.dotColumns)
}

// dotColumns computes columns j0 to j1 of A·Bᵀ. It reads B sequentially, because that is fastest.
func (p *Product) dotColumns(j0, j1 int) {
	cols := dotCols
	if p.K <= blockedK {
		cols = roundUp(dotWork/p.K, dotCols)
	}
	for j := j0; j < j1; j += cols {
		for k := 0; k < p.K; k += blockedK {
			bias, add := p.epilogue(j, k)
			vecDots(p.M, min(cols, j1-j), min(blockedK, p.K-k), &p.A[k], p.LDA, &p.B[j*p.LDB+k],
				p.LDB, &p.C[j], p.LDC, bias, add)
		}
	}
}

// panel returns the width of a panel of B, which equals the width of a tile in registers.
func (l level) panel() int {
	if l.narrow() {
		return 16
	}
	return 48
}

// height returns the height of a tile in registers.
func (l level) height() int {
	if l.narrow() {
		return 6
	}
	return 8
}
