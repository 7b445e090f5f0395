package kernel

// CausalConv computes the short filter of Mamba and Hyena for the rows t in [lo, hi) of one sequence x (l, d), where
// each channel has its own taps: y[t] = bias + Σ_{i<m, i≤t} taps[i]·x[t-i], taps (m, d), bias (d) or nil for zeros. The
// result does not depend on how the rows are divided among calls. The rows of x may lie further apart.
func CausalConv(y []float32, x Rows, taps, bias []float32, d, m, lo, hi int) {
	f := directFilter{Rows{y, d}, x, taps, d, m}
	part, width := cpu.firTile()
	if m < width { // rows are filtered one by one
		part = 1
	}
	for ; lo < hi; lo += part { // the rows with the bias are still in the cache
		part = min(part, hi-lo)
		for t := range part {
			if row := f.out.Row(lo+t, d); bias == nil {
				clear(row)
			} else {
				copy(row, bias)
			}
		}
		f.rows(lo, part, 1, lo)
	}
}

// CausalConvPast adds to y (d) of position t < m-1 of a row the contribution of the inputs before the row: Σ_{t<i<m}
// taps[i]·past[m-1+t-i], from the newest input on. past (m-1, d) ends with the newest input.
func CausalConvPast(y, past, taps []float32, m, t int) {
	d := len(y)
	directFilter{Rows{y, d}, Rows{past, d}, taps[(t+1)*d:], d, m}.row(0, m-2, 1, 0, m-1-t)
}

// CausalConvGrad adds the input's gradient for the rows t in [lo, hi): dx[t] += Σ_{i<m, t+i<l} taps[i]·dy[t+i].
func CausalConvGrad(dx Rows, dy, taps []float32, d, m, l, lo, hi int) {
	directFilter{dx, Rows{dy, d}, taps, d, m}.rows(hi-1, hi-lo, -1, l-hi)
}

// CausalConvTapsGrad adds the contribution of the rows t in [lo, hi) to the gradient of the taps: dtaps[i] += Σ_{t≥i}
// dy[t]·x[t-i], i < m. It reads the rows once: a block of rows stays in the cache while all taps use it.
func CausalConvTapsGrad(dtaps, dy []float32, x Rows, d, m, lo, hi int) {
	for ; lo < hi; lo += tapRows {
		for i := range m {
			tapGrad(dtaps, dy, x, d, i, max(lo, i), min(hi, lo+tapRows))
		}
	}
}
