package kernel

// Panels is the matrix B of several products A·B or A·Bᵀ, put into the order in which they read it, and rounded, once for all
// of them: for products of so few rows that this takes as long as they do.
type Panels struct {
	b  product   // what does not change: op, B and its shape
	at []float32 // B in panels; nil where products take it as it lies
}

// PanelsLen is the number of floats that Panels needs for a B of n columns and k terms, 0 where it takes B as it lies.
func (p Precision) PanelsLen(op Op, n, k int) int {
	b := product{op: op, n: n, k: k, bf16: p == BF16}
	return b.panelFloats()
}

// Panels returns B, as Gemm of NN or NT takes it, with buf to lie in as panels: those that Fill has put there.
func (p Precision) Panels(op Op, n, k int, b []float32, ldb int, buf []float32) Panels {
	panels := Panels{b: product{op: op, n: n, k: k, b: b, ldb: ldb, bf16: p == BF16}}
	if size := panels.b.panelFloats(); size > 0 {
		panels.at = buf[:size]
	}
	return panels
}

// Fill puts B into panels. It must not change while they are used.
func (b *Panels) Fill() {
	if b.at != nil {
		b.b.toPanels(b.at)
	}
}

// FillFrom is Fill with the elements of B in x, as Panels takes them. Where products take B as it lies it is copied.
func (b *Panels) FillFrom(x []float32) {
	if b.at == nil {
		copy(b.b.b, x)
		return
	}
	p := b.b
	p.b = x
	p.toPanels(b.at)
}

// GemmInline is GemmInline with the first n columns and k terms of B. It gives the same bits.
func (b *Panels) GemmInline(m, n, k int, a []float32, lda int, c []float32, ldc int, add bool) {
	p := b.b
	p.m, p.n, p.k, p.a, p.lda, p.c, p.ldc, p.add = m, n, k, a, lda, c, ldc, add
	if b.at == nil || m <= 0 || n <= 0 || k <= 0 {
		p.compute(1)
	} else {
		p.fromPanels(b.at, b.b.n, b.b.k)
	}
}
