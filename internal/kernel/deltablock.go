package kernel

// SolveLower replaces x (rows, n) by the solution y of y = x + M·y, where M is (rows, rows). It reads only the part of
// M below the diagonal. Rows of x lie xs floats apart, those of m ms. Each element is changed by one row after the
// other, from the first on.
func SolveLower(x []float32, xs int, m []float32, ms, rows, n int) {
	if rows > 1 && n > 0 {
		solveLower(x, 0, xs, m, 0, ms, 1, rows, n)
	}
}

// SolveUpper is SolveLower with Mᵀ instead of M, from the last row back.
func SolveUpper(x []float32, xs int, m []float32, ms, rows, n int) {
	if last := rows - 1; rows > 1 && n > 0 {
		solveLower(x, last*xs, -xs, m, last*ms+last, -1, -ms, rows, n)
	}
}

// solveLower solves for rows from x[x0] on, xs floats apart. Element (i, j) of M is m[m0 + i·mi + j·mj].
func solveLower(x []float32, x0, xs int, m []float32, m0, mi, mj, rows, n int) {
	last := rows - 1
	_, _ = x[x0:][:n], x[x0+last*xs:][:n]
	_, _ = m[m0+mi], m[m0+last*mi+(last-1)*mj]
	if cpu.has(solveLowerCode) {
		part := max(Lanes, scanWork/(rows*rows)/Lanes*Lanes)
		for c := 0; c < n; c += part {
			vecSolveLower(rows, min(part, n-c), &x[x0+c], xs, &m[m0], mi, mj)
		}
		return
	}
	for i := 1; i < rows; i++ {
		row := x[x0+i*xs:][:n]
		for j := range i {
			f := m[m0+i*mi+j*mj]
			for c, v := range x[x0+j*xs:][:n] {
				row[c] += float32(f * v)
			}
		}
	}
}

// AxpyDots adds f[r]·x[r·xs + i] to y[r·ys + i] for r < rows and i < n, and sets dots[r] = Σ_i x[r·xs + i]·w[r·ws + i].
func AxpyDots(dots, y []float32, ys int, f, x []float32, xs int, w []float32, ws, rows, n int) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _, _, _, _ = dots[:rows], y[(rows-1)*ys:][:n], f[:rows], x[(rows-1)*xs:][:n], w[(rows-1)*ws:][:n]
	if cpu.has(axpyDotsCode) {
		for r, part := 0, max(1, callLength/n); r < rows; r += part {
			vecAxpyDots(min(part, rows-r), n, &dots[r], &y[r*ys], ys, &f[r], &x[r*xs], xs, &w[r*ws], ws)
		}
		return
	}
	for r := range rows {
		sum := float32(0)
		for i, v := range x[r*xs:][:n] {
			sum += float32(v * w[r*ws+i])
			y[r*ys+i] += float32(f[r] * v)
		}
		dots[r] = sum
	}
}
