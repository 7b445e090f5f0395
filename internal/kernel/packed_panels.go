package kernel

// canShorten reports whether the short form can be multiplied as fast as memory delivers it.
func canShorten() bool { return cpu.has(shortenCode) }

// packedRows returns the number of rows of x that a product of packed weights keeps in registers.
func (l level) packedRows() int {
	if !l.has(avx512) {
		return 1
	}
	return 8
}

// fewPacked is the number of rows of x up to which narrow levels multiply them one at a time. With more rows it is
// worth while to unpack a panel of bfloat16 first and to keep several rows of sums in registers.
const fewPacked = 8

// directFloat computes the columns of the panel that begins with column j without Gemm, if that is faster, and reports
// whether it did. The order of sums and the blocks of terms equal Gemm's.
func (p *packedProduct) directFloat(j int) bool {
	switch {
	case p.k == 0, p.exact && p.k%2 != 0, cpu.narrow() && p.m > fewPacked,
		p.precision == Float32 && (cpu.has(avx512) || !cpu.has(packedFloat32Code)),
		p.precision == BF16 && !cpu.has(packedBF16Code),
		p.short != nil && !canShorten():
		return false
	}
	rows := cpu.packedRows()
	for k := 0; k < p.k; k += p.blockTerms() {
		for i := 0; i < p.m; i += rows {
			p.block(i, min(rows, p.m-i), j, k)
		}
	}
	return true
}

// blockTerms returns the number of terms that are summed before they are added to y.
func (p *packedProduct) blockTerms() int {
	if p.roundsX() {
		return pairTerms
	}
	return blockedK
}

// block adds a block of terms from k on to 48 columns from j on of m rows of y from i on.
func (p *packedProduct) block(i, m, j, k int) {
	y := p.y[i*p.ldy+j:]
	if j+packedWidth <= p.n {
		var bias *float32
		if k == 0 && p.bias != nil {
			bias = &p.bias[j]
		}
		p.sums(i, m, j, k, &y[0], p.ldy, bias, k > 0)
		return
	}
	var tile [8 * packedWidth]float32 // columns past the last one of y go here
	p.sums(i, m, j, k, &tile[0], packedWidth, nil, false)
	for r := range m {
		row, sums := y[r*p.ldy:][:p.n-j], tile[r*packedWidth:]
		switch {
		case k > 0:
			for t := range row {
				row[t] += sums[t]
			}
		case p.bias != nil:
			for t, b := range p.bias[j:p.n] {
				row[t] = sums[t] + b
			}
		default:
			copy(row, sums)
		}
	}
}

// sums calls the assembly for block.
func (p *packedProduct) sums(i, m, j, k int, y *float32, ldy int, bias *float32, add bool) {
	if p.precision == BF16 {
		p.sumsBF16(i, m, j, k, y, ldy, bias, add)
		return
	}
	at, step := p.at(j)
	vecPackedFloat32(min(blockedK, p.k-k), &p.x[i*p.ldx+k], &p.f32[at+k*step], y, bias, add)
}
