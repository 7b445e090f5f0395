package kernel

import "math"

// SSDStep steps one head of Mamba-2 (arXiv:2405.21060, §3) by one position: for each of its channels p with n states,
//
//	h[p] = decay·h[p] + x[p]·B,   y[p] = Σ_n C·h[p]
//
// y, x (d), h (d, n), b, c (n).
func SSDStep(y, h, x, b, c []float32, decay float32) {
	d, n := len(y), len(b)
	x, h, c = x[:d], h[:d*n], c[:n]
	if cpu.has(ssdStepCode) && n > 0 {
		part := max(1, scanWork/max(n, Lanes))
		for v := 0; v < d; v += part {
			vecSsdStep(min(part, d-v), n, &y[v], &h[v*n], &x[v], &b[0], &c[0], decay)
		}
		return
	}
	for v, in := range x {
		sum := float32(0)
		row := h[v*n:][:n]
		for i, s := range row {
			s = float32(decay*s) + float32(in*b[i])
			row[i] = s
			sum += float32(c[i] * s)
		}
		y[v] = sum
	}
}

// Decays sets l (q, q) to exp(steps[s+1] + ... + steps[t]) for s ≤ t < q, and to 0 above the diagonal. Each exponent is
// the sum of its own steps only, so nothing cancels.
func Decays(l, steps []float32) {
	q := len(steps)
	if l = l[:q*q]; q == 0 {
		return
	}
	if cpu.has(decaysCode) && q <= decaysMost {
		vecDecays(q, &steps[0], &l[0])
		return
	}
	for t, step := range steps {
		row := l[t*q:][:q]
		if t > 0 {
			for s, sum := range l[(t-1)*q:][:t] {
				row[s] = sum + step
			}
		}
		row[t] = 0
		for s := t + 1; s < q; s++ {
			row[s] = float32(math.Inf(-1))
		}
	}
	ExpShift(l, 0, 1)
}

// decaysMost is the largest number of rows in a call of assembly: some 50 µs.
const decaysMost = 512

// ScaleRows sets y[r·ys + i] = s[r·ss]·x[r·xs + i] for r < rows and i < n.
func ScaleRows(y []float32, ys int, x []float32, xs int, s []float32, ss, rows, n int) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _, _ = y[(rows-1)*ys:][:n], x[(rows-1)*xs:][:n], s[(rows-1)*ss]
	if cpu.has(scaleRowsCode) {
		for r, part := 0, max(1, callLength/n); r < rows; r += part {
			vecScaleRows(min(part, rows-r), n, &y[r*ys], ys, &x[r*xs], xs, &s[r*ss], ss)
		}
		return
	}
	for r := range rows {
		for i, v := range x[r*xs:][:n] {
			y[r*ys+i] = s[r*ss] * v
		}
	}
}

// AxpyRows adds s[r·ss]·x[r·xs + i] to y[r·ys + i] for r < rows and i < n.
func AxpyRows(y []float32, ys int, x []float32, xs int, s []float32, ss, rows, n int) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _, _ = y[(rows-1)*ys:][:n], x[(rows-1)*xs:][:n], s[(rows-1)*ss]
	if cpu.has(axpyRowsCode) {
		for r, part := 0, max(1, callLength/n); r < rows; r += part {
			vecAxpyRows(min(part, rows-r), n, &y[r*ys], ys, &x[r*xs], xs, &s[r*ss], ss)
		}
		return
	}
	for r := range rows {
		for i, v := range x[r*xs:][:n] {
			y[r*ys+i] += float32(s[r*ss] * v)
		}
	}
}

// CarryState sets state = decay·state + added, and added to the previous state.
func CarryState(state, added []float32, decay float32) {
	added = added[:len(state)]
	if cpu.has(carryStateCode) {
		for lo := 0; lo < len(state); lo += callLength {
			vecCarryState(min(callLength, len(state)-lo), &state[lo], &added[lo], decay)
		}
		return
	}
	for i, v := range state {
		state[i], added[i] = float32(decay*v)+added[i], v
	}
}
