package kernel

// Panels is the matrix B of several products A·B or A·Bᵀ, packed in the order in which they read it, and rounded, once
// for all of them. It is worth while for products of so few rows that packing takes as long as the product.
type Panels struct {
	b  Product   // the fields that do not change: op, B and its shape
	at []float32 // B in panels; nil where products read it in place
}

// PanelsLen returns the number of floats that Panels needs for a B of n columns and k terms, or 0 if B is read in
// place.
func (p Precision) PanelsLen(op Op, n, k int) int {
	b := Product{Op: op, N: n, K: k, bf16: p == BF16}
	return b.panelFloats()
}

// Panels returns B, in the layout of Gemm's NN or NT. buf is the memory of its panels, which Fill fills.
func (p Precision) Panels(op Op, n, k int, b []float32, ldb int, buf []float32) Panels {
	panels := Panels{b: Product{Op: op, N: n, K: k, B: b, LDB: ldb, bf16: p == BF16}}
	if size := panels.b.panelFloats(); size > 0 {
		panels.at = buf[:size]
	}
	return panels
}

// Fill packs B into panels. B must not change while they are in use.
func (b *Panels) Fill() {
	if b.at != nil {
		b.b.toPanels(b.at)
	}
}

// FillFrom is Fill with the elements of B in x, in the layout of Panels. If products read B in place, x is copied to
// it.
func (b *Panels) FillFrom(x []float32) {
	if b.at == nil {
		copy(b.b.B, x)
		return
	}
	p := b.b
	p.B = x
	p.toPanels(b.at)
}

// GemmInline is Product.GemmInline with the first n columns and k terms of B. It gives the same bits.
func (b *Panels) GemmInline(m, n, k int, a []float32, lda int, c []float32, ldc int, add bool) {
	p := b.b
	p.M, p.N, p.K, p.A, p.LDA, p.C, p.LDC, p.Add = m, n, k, a, lda, c, ldc, add
	if b.at == nil || m <= 0 || n <= 0 || k <= 0 {
		p.compute(1)
	} else {
		p.fromPanels(b.at, b.b.N, b.b.K)
	}
}
