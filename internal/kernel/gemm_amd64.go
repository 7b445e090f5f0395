package kernel

import "github.com/hippo-ssm/hippo/internal/parallel"

// The product in assembly works on C by blocks of B, of blockedK terms and blockedN columns, that stay in the second-level
// cache while the rows of A pass by. What does not lie well for that is put into panels first: Bᵀ, a large B, and a large
// Aᵀ. Anything else is read where it lies.
const (
	blockedK = 384 // terms summed before they are added to C
	blockedN = 384 // columns of C at a time, a multiple of unitN
	unitN    = 48  // a multiple of the width of every tile in registers (16 and 48)
	unitM    = 24  // and of its height (6 and 8)
	panelA   = 96  // width of a panel of Aᵀ, a multiple of 16 and of unitM

	panelGap = 16  // floats between panels: one after the other they would fall into the same sets of the cache

	inPlace  = 1 << 17 // floats from the first to the last of a block up to which it lies well where it is
	fewRows  = 48      // rows of C up to which a copy of B does not pay
	callWork = 1 << 21 // multiply-adds in a call of assembly, some 40 µs
	dotCols  = 16      // columns that the product for very few rows computes at a time
)

// blocked computes a product of k ≥ 1 terms by workers.
func (p *product) blocked(workers int) {
	if p.op == NT && p.m <= cpu.dotRows() && p.n >= dotCols {
		p.dots(workers)
		return
	}
	depth := min(p.k, blockedK)
	copyA := p.op == TN && p.lda*depth > inPlace && p.n > cpu.panel()
	copyB := p.op == NT || p.ldb*depth > inPlace && p.m > fewRows
	if workers == 1 && !copyA && !copyB {
		b := block{product: p, m: p.m, n: p.n, k: p.k}
		b.tile(0, p.m, 0, p.n)
		return
	}
	p.shared(workers, copyA, copyB)
}

// dots computes A·Bᵀ for few rows of A, which takes as long as it takes to read B.
func (p *product) dots(workers int) {
	if workers == 1 {
		p.dotColumns(0, p.n)
		return
	}
	cols := max(evenly(p.n, 4*workers, dotCols), evenly(cpu.taskWork()/p.k, 1, dotCols))
	q := *p // for p must not escape when there is one worker
	parallel.For(p.n, cols, q.dotColumns)
}

// dotColumns computes columns j0 to j1 of A·Bᵀ. It reads B from beginning to end, which memory is fastest at.
func (p *product) dotColumns(j0, j1 int) {
	cols := dotCols
	if p.k <= blockedK {
		cols = evenly(callWork/8/p.k, 1, dotCols)
	}
	for j := j0; j < j1; j += cols {
		for k := 0; k < p.k; k += blockedK {
			bias, add := p.epilogue(j, k)
			cpu.dots(p.m, min(cols, j1-j), min(blockedK, p.k-k), &p.a[k], p.lda, &p.b[j*p.ldb+k], p.ldb, &p.c[j], p.ldc, bias, add)
		}
	}
}

// epilogue returns what to do with the sums of the block of terms from k on, for the columns from j on.
func (p *product) epilogue(j, k int) (bias *float32, add bool) {
	if k == 0 && p.bias != nil {
		bias = &p.bias[j]
	}
	return bias, p.add || k > 0
}

// block is the part of a product that is in panels, if anything is: terms k0 to k0+k of C[i0:i0+m, j0:j0+n].
type block struct {
	*product
	i0, m, j0, n, k0, k int
	panelsA, panelsB    []float32 // nil if the operand is read where it lies
}

// operand is a block of A or B as the assembly takes it. Element (i, p) of A is at[i/panelA·panel + i%panelA·s + p·t];
// element (p, j) of B is at[j/w·panel + j%w + p·t], where w is the width of a panel.
type operand struct {
	at          []float32
	s, t, panel int
}

// operandA is A for the block of terms from k on.
func (b *block) operandA(k int) operand {
	switch {
	case b.panelsA != nil:
		panel := panelA*min(b.k, blockedK) + panelGap
		return operand{b.panelsA[(k-b.k0)/blockedK*ceil(b.m, panelA)*panel:], 1, panelA, panel}
	case b.op == TN:
		return operand{b.a[k*b.lda+b.i0:], 1, b.lda, panelA}
	}
	return operand{b.a[b.i0*b.lda+k:], b.lda, 1, panelA * b.lda}
}

// operandB is B for the block of terms from k on.
func (b *block) operandB(k int) operand {
	width := cpu.panel()
	if b.panelsB != nil {
		panel := width*min(b.k, blockedK) + panelGap
		return operand{b.panelsB[(k-b.k0)/blockedK*ceil(b.n, width)*panel:], 1, width, panel}
	}
	return operand{b.b[k*b.ldb+b.j0:], 1, b.ldb, width}
}

// tile computes the rows i0 to i1 and the columns j0 to j1 of the block. i0 is a multiple of unitM, j0 of unitN.
func (b *block) tile(i0, i1, j0, j1 int) {
	for j := j0; j < j1; j += blockedN {
		n := min(blockedN, j1-j)
		for k := b.k0; k < b.k0+b.k; k += blockedK {
			depth := min(blockedK, b.k0+b.k-k)
			p, q := b.operandA(k), b.operandB(k)
			bias, add := b.epilogue(b.j0+j, k)
			rows := evenly(callWork/(n*depth), 1, unitM)
			for i := i0; i < i1; {
				m := min(rows, i1-i, panelA-i%panelA)
				cpu.gemm(m, n, depth, &p.at[i/panelA*p.panel+i%panelA*p.s], p.s, p.t, &q.at[j/cpu.panel()*q.panel], q.t, q.panel,
					&b.c[(b.i0+i)*b.ldc+b.j0+j], b.ldc, bias, add)
				i += m
			}
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
