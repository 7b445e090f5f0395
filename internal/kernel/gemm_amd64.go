package kernel

import (
	"sync"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// The product in assembly works on C by blocks of B, of blockedK terms and blockedN columns, that stay in the second-level
// cache while the rows of A pass by. Bᵀ, or a large B, is put into panels first: as many columns as a tile of C in
// registers has, row after row. A is read where it lies, but for a large Aᵀ, of which a chunk is copied right before use.
const (
	blockedK = 384 // terms summed before they are added to C
	blockedN = 384 // columns of C at a time, a multiple of unitN
	unitN    = 48  // a multiple of the width of every tile in registers (16 and 48)
	unitM    = 24  // and of its height (6 and 8)
	chunkM   = 96  // rows of C for which Aᵀ is copied at a time, a multiple of 16 and of unitM
	panelGap = 16  // floats between panels: one right after the other, they would fall into the same sets of the cache

	inPlace  = 1 << 17 // floats from the first to the last of a block up to which it lies well where it is
	fewRows  = 48      // rows of C up to which a copy of B does not pay
	callWork = 1 << 21 // multiply-adds in a call of assembly, some 40 µs
	dotCols  = 16      // columns that the product for very few rows computes at a time
)

// blocked computes a product of k ≥ 1 terms by a number of workers.
func (p *product) blocked(workers int) {
	switch {
	case p.op == NT && p.m <= cpu.dotRows() && p.n >= dotCols:
		p.dots(workers)
	case workers == 1:
		p.blockedTile(0, p.m, 0, p.n)
	default:
		p.blockedShared(workers)
	}
}

// blockedShared computes C tile by tile on all cores.
func (p product) blockedShared(workers int) {
	rows, cols := p.blockedGrid(workers)
	down, across := ceil(p.m, rows), ceil(p.n, cols)
	parallel.For(down*across, 1, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			i, j := t%down*rows, t/down*cols
			p.blockedTile(i, min(p.m, i+rows), j, min(p.n, j+cols))
		}
	})
}

// blockedGrid returns the height and width of the tiles of C that are tasks. Each worker gets some, so that all end at
// about the same time, but not many: every task puts its part of B into panels for itself, which many rows must pay for.
func (p *product) blockedGrid(workers int) (rows, cols int) {
	const perWorker, manyRows = 4, 240
	cols = evenly(p.n, ceil(p.n, blockedN), unitN)
	rows = evenly(p.m, ceil(perWorker*workers, ceil(p.n, cols)), unitM)
	rows = max(rows, min(manyRows, evenly(p.m, workers, unitM)), evenly(cpu.taskWork()/cols, p.k, unitM))
	if down := ceil(p.m, rows); down*ceil(p.n, cols) < workers {
		cols = max(evenly(p.n, ceil(workers, down), unitN), evenly(cpu.taskWork()/p.m, p.k, unitN))
	}
	return rows, cols
}

// buffers are where a goroutine keeps a chunk of Aᵀ and a block of B in panels.
type buffers struct {
	a [blockedK * chunkM]float32
	b [blockedN * (blockedK + 1)]float32 // with the gaps of panels of 16 or more columns
}

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

// operand is A or B as the assembly takes it. Element (i, p) of A is at[i·s + p·t]; element (p, j) of B is
// at[j/w·s + j%w + p·t], where w is the width of a panel.
type operand struct {
	at   []float32
	s, t int
}

// blockedTile computes C[i0:i1, j0:j1].
func (p *product) blockedTile(i0, i1, j0, j1 int) {
	depth := min(p.k, blockedK)
	copyA := p.op == TN && p.lda*depth > inPlace && j1-j0 > cpu.panel()
	copyB := p.op == NT || p.ldb*depth > inPlace && i1-i0 > fewRows
	var buf *buffers
	if copyA || copyB {
		buf = bufferPool.Get().(*buffers)
		defer bufferPool.Put(buf)
	}
	chunk := i1 - i0
	if copyA {
		chunk = chunkM
	}
	for j := j0; j < j1; j += blockedN {
		n := min(blockedN, j1-j)
		for k := 0; k < p.k; k += blockedK {
			depth := min(blockedK, p.k-k)
			b := p.operandB(j, k)
			if copyB {
				b = buf.panels(p.op, b.at, p.ldb, n, depth)
			}
			for i := i0; i < i1; i += chunk {
				m := min(chunk, i1-i)
				a := p.operandA(i, k)
				if copyA {
					copyAVX2(depth, m, &a.at[0], p.lda, &buf.a[0], chunkM, 0)
					a = operand{buf.a[:], 1, chunkM}
				}
				p.block(i, m, j, n, k, depth, a, b)
			}
		}
	}
}

// operandA is A from row i of C and term k on, where it lies.
func (p *product) operandA(i, k int) operand {
	if p.op == TN {
		return operand{p.a[k*p.lda+i:], 1, p.lda}
	}
	return operand{p.a[i*p.lda+k:], p.lda, 1}
}

// operandB is B from column j and term k on, where it lies. Bᵀ is of no use as it is.
func (p *product) operandB(j, k int) operand {
	if p.op == NT {
		return operand{at: p.b[j*p.ldb+k:]}
	}
	return operand{p.b[k*p.ldb+j:], cpu.panel(), p.ldb}
}

// block adds depth terms from k on to C[i:i+m, j:j+n].
func (p *product) block(i, m, j, n, k, depth int, a, b operand) {
	bias, add := p.epilogue(j, k)
	rows := evenly(callWork/n, depth, unitM)
	for r := 0; r < m; r += rows {
		cpu.gemm(min(rows, m-r), n, depth, &a.at[r*a.s], a.s, a.t, &b.at[0], b.t, b.s, &p.c[(i+r)*p.ldc+j], p.ldc, bias, add)
	}
}

// epilogue returns what to do with the sums of the block of terms from k on, for the columns from j on.
func (p *product) epilogue(j, k int) (bias *float32, add bool) {
	if k == 0 && p.bias != nil {
		bias = &p.bias[j]
	}
	return bias, p.add || k > 0
}

// panels puts k rows of n floats of B, or n rows of k floats of Bᵀ, into panels.
func (buf *buffers) panels(op Op, src []float32, ld, n, k int) operand {
	width := cpu.panel()
	panel := width*k + panelGap
	if op == NT {
		for j := 0; j < n; j += width {
			transpose(buf.b[j/width*panel:], src[j*ld:], k, min(width, n-j), ld, width)
		}
	} else {
		copyAVX2(k, n, &src[0], ld, &buf.b[0], width, panel)
	}
	return operand{buf.b[:], panel, width}
}

// transpose sets dst[p·width + r] = src[r·ld + p] for p < k and r < rows.
func transpose(dst, src []float32, k, rows, ld, width int) {
	r := 0
	for ; r+8 <= rows; r += 8 {
		packAVX2(k, &src[r*ld], ld, &dst[r], width)
	}
	if r < rows && rows > 8 { // once more with some of those before
		r = rows
		packAVX2(k, &src[(r-8)*ld], ld, &dst[r-8], width)
	}
	for ; r < rows; r++ {
		for p, v := range src[r*ld:][:k] {
			dst[p*width+r] = v
		}
	}
}

// dots computes A·Bᵀ for few rows of A, which takes as long as it takes to read B.
func (p *product) dots(workers int) {
	if workers == 1 {
		p.dotColumns(0, p.n)
		return
	}
	q := *p // p must not escape when there is one worker
	cols := max(evenly(p.n, 4*workers, dotCols), evenly(cpu.taskWork(), p.k, dotCols))
	parallel.For(p.n, cols, q.dotColumns)
}

// dotColumns computes columns j0 to j1 of A·Bᵀ. It reads B from beginning to end, which memory is fastest at.
func (p *product) dotColumns(j0, j1 int) {
	cols := dotCols
	if p.k <= blockedK {
		cols = evenly(callWork/8, p.k, dotCols)
	}
	for j := j0; j < j1; j += cols {
		for k := 0; k < p.k; k += blockedK {
			bias, add := p.epilogue(j, k)
			cpu.dots(p.m, min(cols, j1-j), min(blockedK, p.k-k), &p.a[k], p.lda, &p.b[j*p.ldb+k], p.ldb, &p.c[j], p.ldc, bias, add)
		}
	}
}

// panel is the width of a panel of B, which is that of a tile in registers.
func (l level) panel() int {
	if l == avx2 {
		return 16
	}
	return 48
}

// dotRows is the number of rows of A up to which the product A·Bᵀ transposes B on the way.
func (l level) dotRows() int {
	if l == avx2 {
		return 4
	}
	return 8
}

func (l level) gemm(m, n, k int, a *float32, rs, cs int, b *float32, bs, ps int, c *float32, ldc int, bias *float32, add bool) {
	if l == avx2 {
		gemmAVX2(m, n, k, a, rs, cs, b, bs, ps, c, ldc, bias, add)
	} else {
		gemmAVX512(m, n, k, a, rs, cs, b, bs, ps, c, ldc, bias, add)
	}
}

func (l level) dots(m, n, k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, bias *float32, add bool) {
	if l == avx2 {
		dotsAVX2(m, n, k, a, lda, b, ldb, c, ldc, bias, add)
	} else {
		dotsAVX512(m, n, k, a, lda, b, ldb, c, ldc, bias, add)
	}
}
