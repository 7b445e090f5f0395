package kernel

// In panels, B is a sequence of blocks of terms, each with all columns.

// terms returns the number of terms of a block: those summed before they are added to C.
func (p *Product) terms() int {
	switch {
	case !p.bf16:
		return blockedK
	case p.Op == TN:
		return pairsTN
	}
	return pairsK
}

// panelFloats returns the size of B in panels, or 0 if a product reads it in place.
func (p *Product) panelFloats() int {
	if !cpu.has(gemmCode) || p.bf16 && !cpu.has(gemmPairsCode) || p.Op == NN && !p.bf16 {
		return 0
	}
	size := p.K / p.terms() * p.blockFloats(p.N, p.terms())
	if last := p.K % p.terms(); last > 0 {
		size += p.blockFloats(p.N, last)
	}
	return size
}

// blockFloats returns the size of a block of n columns and the given number of terms.
func (p *Product) blockFloats(n, terms int) int { return ceil(n, cpu.panel()) * p.panelOf(terms) }

// panelOf returns the distance of panels with the given number of terms.
func (p *Product) panelOf(terms int) int {
	if p.bf16 {
		terms = ceil(terms, 2)
	}
	return cpu.panel()*terms + panelGap
}

// toPanels packs B into panels.
func (p *Product) toPanels(at []float32) {
	if p.bf16 {
		buf := pairPool.Get().(*pairBuffers)
		defer pairPool.Put(buf)
		for k := 0; k < p.K; k += p.terms() {
			depth := min(p.terms(), p.K-k)
			wordsOfB(at[k/p.terms()*p.blockFloats(p.N, p.terms()):], buf.a[:], p, 0, p.N, k, depth)
		}
		return
	}
	for k := 0; k < p.K; k += blockedK {
		panels(at[k/blockedK*p.blockFloats(p.N, p.terms()):], p.Op, p.B[k:], p.LDB, p.N, min(blockedK, p.K-k))
	}
}

// fromPanels computes the product from the panels of a B with columns columns and all terms.
func (p *Product) fromPanels(at []float32, columns, all int) {
	var buf *pairBuffers
	if p.bf16 {
		buf = pairPool.Get().(*pairBuffers)
		defer pairPool.Put(buf)
	}
	for k := 0; k < p.K; k += p.terms() {
		depth := min(p.terms(), p.K-k)
		b := at[k/p.terms()*p.blockFloats(columns, p.terms()):]
		panel := p.panelOf(min(p.terms(), all-k))
		if !p.bf16 {
			p.panelsBlock(b, panel, k, depth)
			continue
		}
		for i := 0; i < p.M; i += pairsM {
			m := min(pairsM, p.M-i)
			p.pairsBlock(b, panel, buf.wordsOfA(p, i, m, k, depth), i, m, 0, p.N, k, depth)
		}
	}
}

// panelsBlock adds depth terms from k on to C.
func (p *Product) panelsBlock(b []float32, panel, k, depth int) {
	for j := 0; j < p.N; j += blockedN {
		n := min(blockedN, p.N-j)
		bias, add := p.epilogue(j, k)
		rows := roundUp(callWork/(n*depth), unitM) // rows of a call
		for r := 0; r < p.M; r += rows {
			vecGemm(min(rows, p.M-r), n, depth, &p.A[r*p.LDA+k], p.LDA, 1, &b[j/cpu.panel()*panel], cpu.panel(), panel,
				&p.C[r*p.LDC+j], p.LDC, bias, add)
		}
	}
}
