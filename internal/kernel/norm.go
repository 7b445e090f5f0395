package kernel

import "math"

// callRows returns the largest number of rows of d elements in a call of assembly.
func callRows(d int) int { return max(1, callLength/d) }

// LayerNorm computes, for each of the rows of x (r, d),
//
//	y = (x-mean)/√(var+eps) · w + b
//
// with the biased variance, and stores mean and rstd = 1/√(var+eps) (r each) for the backward pass. w and b are those
// of one row, or of several consecutive rows, which are the groups of a longer row and are used in turn. The two
// moments are summed in float64.
func LayerNorm(y, mean, rstd, x, w, b []float32, d int, eps float64) {
	if len(w) > d {
		for r := range mean {
			LayerNorm(y[r*d:], mean[r:][:1], rstd[r:], x[r*d:], rowOf(w, r, d), rowOf(b, r, d), d, eps)
		}
		return
	}
	b = b[:d]
	if cpu.has(layerNormCode) && d > 0 {
		x, y, rstd = x[:len(mean)*d], y[:len(mean)*d], rstd[:len(mean)]
		n := callRows(d)
		for r := 0; r < len(mean); r += n {
			vecLayerNorm(min(n, len(mean)-r), d, &y[r*d], &mean[r], &rstd[r], &x[r*d], &w[0], &b[0], eps)
		}
		return
	}
	for r := range mean {
		xr, yr := x[r*d:][:d], y[r*d:][:d]
		var sum float64
		for _, v := range xr {
			sum += float64(v)
		}
		mu := sum / float64(d)
		var sq float64
		for _, v := range xr {
			c := float64(v) - mu
			sq += float64(c * c)
		}
		rs := 1 / math.Sqrt(sq/float64(d)+eps)
		mean[r], rstd[r] = float32(mu), float32(rs)
		m, s := float32(mu), float32(rs)
		for i, v := range xr {
			yr[i] = float32((v-m)*s*w[i]) + b[i]
		}
	}
}

// LayerNormGrad adds the gradient of LayerNorm with respect to its input: with g = dy·w and x̂ = (x-mean)·rstd,
//
//	dx += rstd · (g - mean(g) - x̂·mean(g·x̂))
func LayerNormGrad(dx, dy, x, w, mean, rstd []float32, d int) {
	if len(w) > d {
		for r := range mean {
			LayerNormGrad(dx[r*d:], dy[r*d:], x[r*d:], rowOf(w, r, d), mean[r:][:1], rstd[r:], d)
		}
		return
	}
	if cpu.has(layerNormGradCode) && d > 0 {
		x, dy, dx, rstd = x[:len(mean)*d], dy[:len(mean)*d], dx[:len(mean)*d], rstd[:len(mean)]
		n := callRows(d)
		for r := 0; r < len(mean); r += n {
			vecLayerNormGrad(min(n, len(mean)-r), d, &dx[r*d], &dy[r*d], &x[r*d], &w[0], &mean[r], &rstd[r])
		}
		return
	}
	for r := range mean {
		xr, dyr, dxr := x[r*d:][:d], dy[r*d:][:d], dx[r*d:][:d]
		m, s := mean[r], rstd[r]
		var sg, sgx float64
		for i, v := range dyr {
			g := v * w[i]
			sg += float64(g)
			sgx += float64(g * (xr[i] - m) * s)
		}
		mg, mgx := float32(sg/float64(d)), float32(sgx/float64(d))
		for i, v := range dyr {
			dxr[i] += float32(s * (float32(v*w[i]) - mg - float32((xr[i]-m)*s*mgx)))
		}
	}
}

// LayerNormParamGrad adds Σ_r dy·x̂ to dw and Σ_r dy to db, as long as w, over the rows given.
func LayerNormParamGrad(dw, db, dy, x, mean, rstd []float32, d int) {
	if len(dw) > d {
		for r := range mean {
			LayerNormParamGrad(rowOf(dw, r, d), rowOf(db, r, d), dy[r*d:], x[r*d:], mean[r:][:1], rstd[r:], d)
		}
		return
	}
	db = db[:d]
	if cpu.has(layerNormParamGradCode) && d > 0 {
		x, dy, rstd = x[:len(mean)*d], dy[:len(mean)*d], rstd[:len(mean)]
		n := callRows(d)
		for r := 0; r < len(mean); r += n {
			vecLayerNormParamGrad(min(n, len(mean)-r), d, &dw[0], &db[0], &dy[r*d], &x[r*d], &mean[r], &rstd[r])
		}
		return
	}
	for r := range mean {
		xr, dyr := x[r*d:][:d], dy[r*d:][:d]
		m, s := mean[r], rstd[r]
		for i, v := range dyr {
			dw[i] += float32(v * (xr[i] - m) * s)
			db[i] += v
		}
	}
}
