package kernel

import "math"

// RMSNorm computes, for each of the rows of x (r, d),
//
//	y = x/√(mean(x²)+eps) · w
//
// and stores rstd = 1/√(mean(x²)+eps) (r) for the backward pass. w has the weights of one row, or of several
// consecutive rows, which are the groups of a longer row and are used in turn. Squares are summed in float64. Zhang and
// Sennrich, arXiv:1910.07467.
func RMSNorm(y, rstd, x, w []float32, d int, eps float64) {
	for r := range rstd {
		xr, yr := x[r*d:][:d], y[r*d:][:d]
		rstd[r] = float32(1 / math.Sqrt(SumSquares(xr)/float64(d)+eps))
		MulInto(yr, xr, rowOf(w, r, d))
		Scale(yr, rstd[r])
	}
}

// rowOf returns the part of w that belongs to row r of width d.
func rowOf(w []float32, r, d int) []float32 { return w[r%(len(w)/d)*d:][:d] }

// RMSNormGrad adds the gradient of RMSNorm with respect to its input: with g = dy·w and x̂ = x·rstd,
//
//	dx += rstd · (g - x̂·mean(g·x̂))
//
// work has d elements.
func RMSNormGrad(dx, dy, x, w, rstd, work []float32, d int) {
	g := work[:d]
	for r, s := range rstd {
		xr, dxr := x[r*d:][:d], dx[r*d:][:d]
		MulInto(g, dy[r*d:][:d], rowOf(w, r, d))
		mean := float32(float64(Dot(g, xr)) * float64(s) / float64(d))
		Axpy(s, g, dxr)
		Axpy(-mean*s*s, xr, dxr)
	}
}

// RMSNormParamGrad adds Σ_r dy·x̂ to dw, as long as w, over the rows given. work has d elements.
func RMSNormParamGrad(dw, dy, x, rstd, work []float32, d int) {
	g := work[:d]
	for r, s := range rstd {
		MulInto(g, dy[r*d:][:d], x[r*d:][:d])
		Axpy(s, g, rowOf(dw, r, d))
	}
}
