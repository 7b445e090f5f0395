package kernel

import "github.com/hippo-ssm/hippo/internal/parallel"

// The portable product reads A and B in place, because in scalar code packing them costs more than it gains. The inner
// loop depends on which operand is contiguous. In A·Bᵀ both operands run along k, and 3x2 dot products stay in
// registers (blockDot). In A·B and Aᵀ·B the rows of B run along the columns of C, and two rows of sums in the nearest
// cache take four rows of B at a time (blockAxpy). Both add the terms of an element one after another in the order of
// k, from zero, which is the order that Gemm promises for any number of rows. Larger tiles are slower: the Go compiler
// schedules all multiplications of a basic block first and then spills their results.
const (
	blockK = 256 // terms summed before they are added to C: bounds the rounding error of long sums
	blockN = 256 // columns of C at a time, a multiple of 4: blockK x blockN of B stays in the second-level cache
)

// portable computes the product by a number of workers.
func (p *Product) portable(workers int) {
	if workers == 1 {
		p.portableTile(0, p.M, 0, p.N)
		return
	}
	p.portableShared()
}

// portableShared computes C tile by tile on all cores. Tiles are one column block wide. Their height follows from the
// smallest work for a core, in multiples of the heights of both inner kernels (2 and 3). It is its own function so that
// small products allocate nothing.
func (p Product) portableShared() {
	cols := min(p.N, blockN)
	rows := (cpu.grainWork()/(cols*p.K) + 6) / 6 * 6
	down, across := ceil(p.M, rows), ceil(p.N, cols)
	parallel.For(down*across, 1, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			// Neighbors share the columns of B, so a core finds them in its cache.
			i, j := t%down*rows, t/down*cols
			p.portableTile(i, min(p.M, i+rows), j, min(p.N, j+cols))
		}
	})
}

// portableTile computes C[i0:i1, j0:j1] over all of k.
func (p *Product) portableTile(i0, i1, j0, j1 int) {
	for j := j0; j < j1; j += blockN {
		end := min(j1, j+blockN)
		if p.K <= 0 {
			var zero [blockN]float32
			for i := i0; i < i1; i++ {
				p.store(zero[:end-j], i, j, 0)
			}
		}
		for k := 0; k < p.K; k += blockK {
			if p.Op == NT {
				p.blockDot(i0, i1, j, end, k, min(p.K, k+blockK))
			} else {
				p.blockAxpy(i0, i1, j, end, k, min(p.K, k+blockK))
			}
		}
	}
}

// store stores s, the sums of block k0 of row i from column j on, in C.
func (p *Product) store(s []float32, i, j, k0 int) {
	c := p.C[i*p.LDC+j:]
	c = c[:len(s)]
	switch {
	case k0 > 0 || (p.Add && p.Bias == nil):
		for t, v := range s {
			c[t] += v
		}
	case p.Bias == nil:
		copy(c, s)
	case p.Add:
		bias := p.Bias[j:]
		bias = bias[:len(s)]
		for t, v := range s {
			c[t] += v + bias[t]
		}
	default:
		bias := p.Bias[j:]
		bias = bias[:len(s)]
		for t, v := range s {
			c[t] = v + bias[t]
		}
	}
}

// blockDot adds the terms k0 to k1 of C[i0:i1, j0:j1] for A (m, k) and B (n, k).
func (p *Product) blockDot(i0, i1, j0, j1, k0, k1 int) {
	var s [3][blockN]float32
	n, last := j1-j0, p.N-1
	for i := i0; i < i1; i += 3 {
		rows := min(3, i1-i)
		a0 := p.A[i*p.LDA+k0:][:k1-k0]
		// Past the last row or column the last one is repeated, which wastes some work at the border but needs fewer
		// kernels.
		if rows == 1 {
			for j := 0; j < n; j += 4 {
				b := p.B[k0:]
				dot1x4((*[4]float32)(s[0][j:]), a0, b[(j0+j)*p.LDB:], b[min(j0+j+1, last)*p.LDB:],
					b[min(j0+j+2, last)*p.LDB:], b[min(j0+j+3, last)*p.LDB:])
			}
		} else {
			a1, a2 := p.A[(i+1)*p.LDA+k0:], p.A[(i+rows-1)*p.LDA+k0:]
			for j := 0; j < n; j += 2 {
				dot3x2(&s, j, a0, a1, a2, p.B[(j0+j)*p.LDB+k0:], p.B[min(j0+j+1, last)*p.LDB+k0:])
			}
		}
		for r := range rows {
			p.store(s[r][:n], i+r, j0, k0)
		}
	}
}

// dot1x4 computes s[j] = Σ_p a[p]·bj[p].
func dot1x4(s *[4]float32, a, b0, b1, b2, b3 []float32) {
	b0, b1, b2, b3 = b0[:len(a)], b1[:len(a)], b2[:len(a)], b3[:len(a)]
	var s0, s1, s2, s3 float32
	for p, x := range a {
		s0 += float32(b0[p] * x)
		s1 += float32(b1[p] * x)
		s2 += float32(b2[p] * x)
		s3 += float32(b3[p] * x)
	}
	*s = [4]float32{s0, s1, s2, s3}
}

// dot3x2 computes s[i][j+t] = Σ_p ai[p]·bt[p] for t = 0, 1.
func dot3x2(s *[3][blockN]float32, j int, a0, a1, a2, b0, b1 []float32) {
	a1, a2, b0, b1 = a1[:len(a0)], a2[:len(a0)], b0[:len(a0)], b1[:len(a0)]
	var s00, s01, s10, s11, s20, s21 float32
	for p := range a0 {
		y0, y1 := b0[p], b1[p]
		x0 := a0[p]
		s00 += float32(x0 * y0)
		s01 += float32(x0 * y1)
		x1 := a1[p]
		s10 += float32(x1 * y0)
		s11 += float32(x1 * y1)
		x2 := a2[p]
		s20 += float32(x2 * y0)
		s21 += float32(x2 * y1)
	}
	s[0][j], s[0][j+1] = s00, s01
	s[1][j], s[1][j+1] = s10, s11
	s[2][j], s[2][j+1] = s20, s21
}

// blockAxpy adds the terms k0 to k1 of C[i0:i1, j0:j1] for B (k, n), and A (m, k) or (k, m).
func (p *Product) blockAxpy(i0, i1, j0, j1, k0, k1 int) {
	var s0, s1 [blockN]float32
	n, k := j1-j0, k1-k0
	si, sk := p.LDA, 1 // A[i, k] is a[i·si + k·sk]
	if p.Op == TN {
		si, sk = 1, p.LDA
	}
	b := p.B[k0*p.LDB+j0:]
	i := i0
	for ; i+2 <= i1; i += 2 {
		clear(s0[:n])
		clear(s1[:n])
		axpyRows2(s0[:n], s1[:n], p.A[i*si+k0*sk:], si, sk, k, b, p.LDB)
		p.store(s0[:n], i, j0, k0)
		p.store(s1[:n], i+1, j0, k0)
	}
	if i < i1 {
		clear(s0[:n])
		axpyRows1(s0[:n], p.A[i*si+k0*sk:], sk, k, b, p.LDB)
		p.store(s0[:n], i, j0, k0)
	}
}

// axpyRows1 adds Σ_p a[p·sk]·b[p·ldb + j] to s[j], in the order of p < k.
func axpyRows1(s, a []float32, sk, k int, b []float32, ldb int) {
	for ; k >= 4; k -= 4 {
		a0, a1, a2, a3 := a[0], a[sk], a[2*sk], a[3*sk]
		b0, b1, b2, b3 := b[:len(s)], b[ldb:][:len(s)], b[2*ldb:][:len(s)], b[3*ldb:][:len(s)]
		for j, t := range s {
			t += float32(b0[j] * a0)
			t += float32(b1[j] * a1)
			t += float32(b2[j] * a2)
			t += float32(b3[j] * a3)
			s[j] = t
		}
		if k == 4 {
			return // the next elements may lie past the end of a and b
		}
		a, b = a[4*sk:], b[4*ldb:]
	}
	for p := range k {
		Axpy(a[p*sk], b[p*ldb:][:len(s)], s)
	}
}

// axpyRows2 adds Σ_p a[i·si + p·sk]·b[p·ldb + j] to si[j] for i = 0, 1, in the order of p < k.
func axpyRows2(s0, s1, a []float32, si, sk, k int, b []float32, ldb int) {
	s1 = s1[:len(s0)]
	for ; k >= 4; k -= 4 {
		a00, a01, a02, a03 := a[0], a[sk], a[2*sk], a[3*sk]
		a10, a11, a12, a13 := a[si], a[si+sk], a[si+2*sk], a[si+3*sk]
		b0, b1, b2, b3 := b[:len(s0)], b[ldb:][:len(s0)], b[2*ldb:][:len(s0)], b[3*ldb:][:len(s0)]
		for j := range s0 {
			t0, t1 := s0[j], s1[j]
			x0 := b0[j]
			t0 += float32(x0 * a00)
			t1 += float32(x0 * a10)
			x1 := b1[j]
			t0 += float32(x1 * a01)
			t1 += float32(x1 * a11)
			x2 := b2[j]
			t0 += float32(x2 * a02)
			t1 += float32(x2 * a12)
			x3 := b3[j]
			t0 += float32(x3 * a03)
			t1 += float32(x3 * a13)
			s0[j], s1[j] = t0, t1
		}
		if k == 4 {
			return // the next elements may lie past the end of a and b
		}
		a, b = a[4*sk:], b[4*ldb:]
	}
	for p := range k {
		y := b[p*ldb:][:len(s0)]
		Axpy(a[p*sk], y, s0)
		Axpy(a[si+p*sk], y, s1)
	}
}
