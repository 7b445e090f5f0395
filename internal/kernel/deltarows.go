package kernel

// The kernels here are for decays by row: each component of a key has its own decay. Matrices are (rows, n), with n
// components to a row, one row after the other unless a step is given. A part is up to DeltaPart positions.

// DeltaPart is the largest number of positions of a part.
const DeltaPart = 16

// DecayPart computes the decays of a part from their logarithms g, whose rows lie gs floats apart. each holds each e^g,
// since the product of those up to a position, upTo that of those after it, and total (n) e to the sum of all. The
// products have up to 16 factors, each rounded. The total, by which a state decays, is computed from a sum of
// logarithms, because the errors of many parts add up.
func DecayPart(each, since, upTo, total, g []float32, gs, rows, n int) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _, _, _, _ = each[:rows*n], since[:rows*n], upTo[:rows*n], total[:n], g[(rows-1)*gs:][:n]
	if cpu.has(decayPartCode) {
		for i := 0; i < n; i += deltaColumns {
			vecDecayPart(rows, min(deltaColumns, n-i), n, &each[i], &since[i], &upTo[i], &total[i], &g[i], gs)
		}
		return
	}
	clear(total[:n])
	for t := range rows {
		for i, v := range g[t*gs:][:n] {
			d := Exp(v)
			total[i] += v
			each[t*n+i], since[t*n+i] = d, d
			if t > 0 {
				since[t*n+i] = since[(t-1)*n+i] * d
			}
		}
	}
	ExpShift(total[:n], 0, 1)
	for i := range n {
		upTo[(rows-1)*n+i] = 1
	}
	for i := (rows-1)*n - 1; i >= 0; i-- {
		upTo[i] = upTo[i+n] * each[i+n]
	}
}

// deltaColumns is the largest number of columns in a call of assembly, some 50 µs.
const deltaColumns = 1 << 11

// MulMatrix sets y[r·ys + i] = a[r·as + i]·b[r·bs + i] for r < rows and i < n. y may be a or b.
func MulMatrix(y []float32, ys int, a []float32, as int, b []float32, bs, rows, n int) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _, _ = y[(rows-1)*ys:][:n], a[(rows-1)*as:][:n], b[(rows-1)*bs:][:n]
	if cpu.has(mulMatrixCode) {
		for r, part := 0, max(1, callLength/n); r < rows; r += part {
			vecMulMatrix(min(part, rows-r), n, &y[r*ys], ys, &a[r*as], as, &b[r*bs], bs)
		}
		return
	}
	for r := range rows {
		for i, v := range a[r*as:][:n] {
			y[r*ys+i] = v * b[r*bs+i]
		}
	}
}

// MulAddMatrix adds a[r·as + i]·b[r·bs + i] to y[r·ys + i] for r < rows and i < n; levels above generic round once.
func MulAddMatrix(y []float32, ys int, a []float32, as int, b []float32, bs, rows, n int) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _, _ = y[(rows-1)*ys:][:n], a[(rows-1)*as:][:n], b[(rows-1)*bs:][:n]
	if cpu.has(mulAddMatrixCode) {
		for r, part := 0, max(1, callLength/n); r < rows; r += part {
			vecMulAddMatrix(min(part, rows-r), n, &y[r*ys], ys, &a[r*as], as, &b[r*bs], bs)
		}
		return
	}
	for r := range rows {
		for i, v := range a[r*as:][:n] {
			y[r*ys+i] += float32(v * b[r*bs+i])
		}
	}
}

// AddRunning adds a·b of each row r to the sum acc (n), and then adds acc to row r of y. Rows begin at y0, a0 and b0
// and lie ys, as and bs floats apart: they go back from the last one if these are negative.
func AddRunning(acc, y []float32, y0, ys int, a []float32, a0, as int, b []float32, b0, bs, rows int) {
	n := len(acc)
	if rows <= 0 || n == 0 {
		return
	}
	last := rows - 1
	_, _, _ = y[y0:][:n], a[a0:][:n], b[b0:][:n]
	_, _, _ = y[y0+last*ys:][:n], a[a0+last*as:][:n], b[b0+last*bs:][:n]
	if cpu.has(addRunningCode) {
		vecAddRunning(rows, n, &acc[0], &y[y0], ys, &a[a0], as, &b[b0], bs)
		return
	}
	for r := range rows {
		x, w, to := a[a0+r*as:][:n], b[b0+r*bs:][:n], y[y0+r*ys:][:n]
		for i := range acc {
			acc[i] += float32(x[i] * w[i])
			to[i] += acc[i]
		}
	}
}

// DecayedScores computes the scores of the readers q and p and the writers z of a part, where e[t] is the decay at t of
// the writers before t:
//
//	sq[t, s] = Σ_i q[t, i]·z[s, i]·Π_{s<r≤t} e[r, i] for s ≤ t
//	sp[t, s] = Σ_i p[t, i]·z[s, i]·Π_{s<r<t} e[r, i] for s < t
//
// and 0 for other s < rows. Rows of scores lie ss floats apart. On entry w (n, DeltaPart) holds the writers,
// transposed, and zeros for those from rows on. It is overwritten.
func DecayedScores(sq, sp []float32, ss int, w, e, q, p []float32, rows, n int) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _ = sq[(rows-1)*ss:][:rows], sp[(rows-1)*ss:][:rows]
	_, _, _, _ = w[:n*DeltaPart], e[:rows*n], q[:rows*n], p[:rows*n]
	if cpu.has(decayedScoresCode) {
		vecDecayedScores(rows, n, &sq[0], &sp[0], ss, &w[0], &e[0], &q[0], &p[0])
		return
	}
	for t := range rows {
		sq, sp := sq[t*ss:][:rows], sp[t*ss:][:rows]
		clear(sq)
		clear(sp)
		for i := range n {
			w, e, q, p := w[i*DeltaPart:][:t+1], e[t*n+i], q[t*n+i], p[t*n+i]
			for s := range t {
				sp[s] += float32(p * w[s])
				w[s] *= e
			}
			for s, v := range w {
				sq[s] += float32(q * v)
			}
		}
	}
}

// DecayedScoresGrad adds to dq, dp, dz and de the gradients of the inputs of DecayedScores, given those of the scores,
// of which it reads only those in the formulas above. de is the gradient of the logarithms of e. work is scratch of
// DecayedWork floats.
func DecayedScoresGrad(dq, dp, dz, de, dsq, dsp []float32, ss int, e, q, p, z, work []float32, rows, n int) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _ = dsq[(rows-1)*ss:][:rows], dsp[(rows-1)*ss:][:rows]
	_, _, _, _ = dq[:rows*n], dp[:rows*n], dz[:rows*n], de[:rows*n]
	_, _, _, _ = e[:rows*n], q[:rows*n], p[:rows*n], z[:rows*n]
	work = work[:DecayedWork]
	if cpu.has(decayedScoresGradCode) {
		vecDecayedScoresGrad(rows, n, &dq[0], &dp[0], &dz[0], &de[0], &dsq[0], &dsp[0], ss, &e[0], &q[0], &p[0], &z[0],
			&work[0])
		return
	}
	for i := range n {
		// w[t, s] is writer s decayed to t, v[s] its gradient.
		var w [DeltaPart][DeltaPart]float32
		var v [DeltaPart]float32
		for t := range rows {
			at := t*n + i
			w[t][t] = z[at]
			for s := range t {
				dp[at] += float32(dsp[t*ss+s] * w[t-1][s])
				w[t][s] = w[t-1][s] * e[at]
			}
			for s := range t + 1 {
				dq[at] += float32(dsq[t*ss+s] * w[t][s])
			}
		}
		for t := rows - 1; t >= 0; t-- {
			at := t*n + i
			dz[at] += v[t] + float32(dsq[t*ss+t]*q[at])
			for s := range t {
				v[s] += float32(dsq[t*ss+s] * q[at])
				de[at] += float32(v[s] * w[t][s])
				v[s] = float32(v[s]*e[at]) + float32(dsp[t*ss+s]*p[at])
			}
		}
	}
}

// DecayedWork is the number of floats that DecayedScoresGrad uses: two vectors for each pair of positions and for each
// position.
const DecayedWork = 2 * Lanes * DeltaPart * (DeltaPart + 1)
