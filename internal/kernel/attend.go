package kernel

// RowDots sets y[i] = Σ_p w[i·ldw + p]·x[p] for i < n and p < k: the scores of a query against n keys. The order of the
// sums depends on k only, except in the last rows where fewer than four remain. It differs from Gemm's.
func RowDots(n, k int, w []float32, ldw int, x, y []float32) {
	if n >= 4 && k%16 == 0 && k > 0 && directRowDots(n, k, w, ldw, x, y) {
		return
	}
	for i := range y[:n] {
		y[i] = Dot(x[:k], w[i*ldw:])
	}
}

// RowSums sets y[j] = Σ_i x[i]·w[i·ldw + j] for i < n and j < k, a weighted sum of n values, or adds that to y. Its
// bits equal Gemm's.
func RowSums(n, k int, w []float32, ldw int, x, y []float32, add bool) {
	if n > 0 && k%16 == 0 && k > 0 && directRowSums(n, k, w, ldw, x, y, add) {
		return
	}
	GemmInline(NN, 1, k, n, x, n, w, ldw, y, k, nil, add)
}
