package kernel

// In panels, B is a sequence of blocks of terms, each with all columns.

// terms is the number of terms of a block: those summed before they are added to C.
func (p *product) terms() int {
	switch {
	case !p.bf16:
		return blockedK
	case p.op == TN:
		return pairsTN
	}
	return pairsK
}

// panelFloats is the size of B in panels, 0 where a product reads it in place.
func (p *product) panelFloats() int {
	if cpu == generic || p.bf16 && cpu != avx512bf16 || p.op == NN && !p.bf16 {
		return 0
	}
	size := p.k / p.terms() * p.blockFloats(p.n, p.terms())
	if last := p.k % p.terms(); last > 0 {
		size += p.blockFloats(p.n, last)
	}
	return size
}

// blockFloats is the size of a block of n columns and the given number of terms.
func (p *product) blockFloats(n, terms int) int { return ceil(n, cpu.panel()) * p.panelOf(terms) }

// panelOf is the distance of panels with the given number of terms.
func (p *product) panelOf(terms int) int {
	if p.bf16 {
		terms = ceil(terms, 2)
	}
	return cpu.panel()*terms + panelGap
}

// toPanels packs B into panels.
func (p *product) toPanels(at []float32) {
	if p.bf16 {
		buf := pairPool.Get().(*pairBuffers)
		defer pairPool.Put(buf)
		for k := 0; k < p.k; k += p.terms() {
			depth := min(p.terms(), p.k-k)
			wordsOfB(at[k/p.terms()*p.blockFloats(p.n, p.terms()):], buf.a[:], p, 0, p.n, k, depth)
		}
		return
	}
	for k := 0; k < p.k; k += blockedK {
		panels(at[k/blockedK*p.blockFloats(p.n, p.terms()):], p.op, p.b[k:], p.ldb, p.n, min(blockedK, p.k-k))
	}
}

// fromPanels computes the product from the panels of a B with columns columns and all terms.
func (p *product) fromPanels(at []float32, columns, all int) {
	var buf *pairBuffers
	if p.bf16 {
		buf = pairPool.Get().(*pairBuffers)
		defer pairPool.Put(buf)
	}
	for k := 0; k < p.k; k += p.terms() {
		depth := min(p.terms(), p.k-k)
		b := at[k/p.terms()*p.blockFloats(columns, p.terms()):]
		panel := p.panelOf(min(p.terms(), all-k))
		if !p.bf16 {
			p.panelsBlock(b, panel, k, depth)
			continue
		}
		for i := 0; i < p.m; i += pairsM {
			m := min(pairsM, p.m-i)
			p.pairsBlock(b, panel, buf.wordsOfA(p, i, m, k, depth), i, m, 0, p.n, k, depth)
		}
	}
}

// panelsBlock adds depth terms from k on to C.
func (p *product) panelsBlock(b []float32, panel, k, depth int) {
	for j := 0; j < p.n; j += blockedN {
		n := min(blockedN, p.n-j)
		bias, add := p.epilogue(j, k)
		rows := roundUp(callWork/(n*depth), unitM) // of a call
		for r := 0; r < p.m; r += rows {
			vecGemm(min(rows, p.m-r), n, depth, &p.a[r*p.lda+k], p.lda, 1, &b[j/cpu.panel()*panel], cpu.panel(), panel,
				&p.c[r*p.ldc+j], p.ldc, bias, add)
		}
	}
}
