package kernel

// RowDots sets y[i] = Σ_p w[i·ldw + p]·x[p] for i < n and p < k: the scores of a query against n keys. The order of the
// sums depends only on k, except in the last rows if fewer than four remain. It differs from Gemm's.
func RowDots(n, k int, w []float32, ldw int, x, y []float32) {
	if n >= 4 && k%16 == 0 && k > 0 && directRowDots(n, k, w, ldw, x, y) {
		return
	}
	for i := range y[:n] {
		y[i] = Dot(x[:k], w[i*ldw:])
	}
}

// RowSums sets y[j] = Σ_i x[i]·w[i·ldw + j] for i < n and j < k, a weighted sum of n values, or adds the sum to y. Its
// bits equal Gemm's.
func RowSums(n, k int, w []float32, ldw int, x, y []float32, add bool) {
	if n > 0 && k%16 == 0 && k > 0 && directRowSums(n, k, w, ldw, x, y, add) {
		return
	}
	GemmInline(Product{Op: NN, M: 1, N: k, K: n, A: x, LDA: n, B: w, LDB: ldw, C: y, LDC: k, Add: add})
}

const attendWork = 1 << 18 // floats in a call of assembly, some 40 µs

// directRowDots computes RowDots in assembly, and reports whether there is any. n is at least 4, k a multiple of 16.
func directRowDots(n, k int, w []float32, ldw int, x, y []float32) bool {
	if !cpu.has(rowDotsCode) {
		return false
	}
	_, _, _ = w[:(n-1)*ldw+k], x[:k], y[:n]
	rows := roundUp(attendWork/k, 4)
	for i := 0; i < n; {
		m := min(rows, n-i)
		if left := n - i - m; left > 0 && left < 4 { // the last call needs four rows
			m -= 4
		}
		vecRowDots(m, k, &w[i*ldw], ldw, &x[0], &y[i])
		i += m
	}
	return true
}

// directRowSums computes RowSums in assembly, and reports whether there is any for k. k is a multiple of 16, n at least
// 1.
func directRowSums(n, k int, w []float32, ldw int, x, y []float32, add bool) bool {
	if !cpu.has(rowSumsCode) || k > 128 || cpu.narrow() && k > 64 {
		return false
	}
	_, _, _ = w[:(n-1)*ldw+k], x[:n], y[:k]
	for i := 0; i < n; i += blockedK {
		m := min(blockedK, n-i)
		vecRowSums(m, k, &w[i*ldw], ldw, &x[i], &y[0], add || i > 0)
	}
	return true
}

// directDots computes Dots in assembly, and reports whether there is any. m is at least 4, k a multiple of 16.
func (r *RoundedRows) directDots(i, m int, x, y []float32) bool {
	if !cpu.has(rowDotsBF16Code) {
		return false
	}
	k := r.k
	_, _ = x[:k], y[:m]
	rows := roundUp(attendWork/k, 4)
	for at := 0; at < m; {
		n := min(rows, m-at)
		if left := m - at - n; left > 0 && left < 4 { // the last call needs four rows
			n -= 4
		}
		vecRowDotsBF16(n, k, &r.bf16[(i+at)*k:][:n*k][0], k, &x[0], &y[at])
		at += n
	}
	return true
}

// directSums computes Sums in assembly, and reports whether there is any for k. k is a multiple of 16, m at least 1.
func (r *RoundedRows) directSums(i, m int, x, y []float32, add bool) bool {
	k := r.k
	if !cpu.has(rowSumsBF16Code) || k > 128 || cpu.narrow() && k > 64 {
		return false
	}
	_, _ = x[:m], y[:k]
	for at := 0; at < m; at += blockedK {
		n := min(blockedK, m-at)
		vecRowSumsBF16(n, k, &r.bf16[(i+at)*k:][:n*k][0], k, &x[at], &y[0], add || at > 0)
	}
	return true
}

// directWiden computes Get in assembly, and reports whether there is any. k is a multiple of 16, m at least 1.
func (r *RoundedRows) directWiden(i, m int, dst []float32) bool {
	if !cpu.has(widenBF16Code | widenInt8Code) {
		return false
	}
	k := r.k
	rows := max(1, attendWork/k)
	for at := 0; at < m; at += rows {
		n := min(rows, m-at)
		y := &dst[at*k:][:n*k][0]
		switch first := (i + at) * k; {
		case r.bf16 != nil:
			vecWidenBF16(n, k, &r.bf16[first:][:n*k][0], y)
		default:
			vecWidenInt8(n, k, &r.int8[first:][:n*k][0], &r.scale[i+at], y)
		}
	}
	return true
}
