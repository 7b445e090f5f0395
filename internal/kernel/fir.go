package kernel

// The direct filters of the shift SSM. Each element of their results is summed in one order, tap after tap or position
// after position, however the work is divided.

// FIR computes, for the rows t in [lo, hi) of one sequence x (l, d), y[t] = skip·x[t] + Σ_{i<m, i≤t} taps[i]·x[t-i].
func FIR(y, x, taps, skip []float32, d, m, lo, hi int) {
	if lo == 0 && isShort(d, hi) {
		filterOf(y, x, taps, d, m).short(skip, 0, hi, 1, false)
		return
	}
	for t := lo; t < hi; t++ {
		MulInto(y[t*d:][:d], x[t*d:][:d], skip)
	}
	filterOf(y, x, taps, d, m).rows(lo, hi-lo, 1, lo)
}

// FIRGrad adds the input's gradient for the rows t in [lo, hi): dx[t] += skip·dy[t] + Σ_{i<m, t+i<l} taps[i]·dy[t+i].
func FIRGrad(dx, dy, taps, skip []float32, d, m, l, lo, hi int) {
	if hi == l && isShort(d, hi-lo) {
		filterOf(dx, dy, taps, d, m).short(skip, hi-1, hi-lo, -1, true)
		return
	}
	for t := lo; t < hi; t++ {
		MulAdd(dx[t*d:][:d], dy[t*d:][:d], skip)
	}
	filterOf(dx, dy, taps, d, m).rows(hi-1, hi-lo, -1, l-hi)
}

// FIRAfter computes, for the n rows of y that continue a sequence x (past+n, d), y[t] = skip·x[past+t] +
// Σ_{i<m, i≤past+t} taps[i]·x[past+t-i].
func FIRAfter(y, x, taps, skip []float32, d, m, past, n int) {
	for t := range n {
		MulInto(y[t*d:][:d], x[(past+t)*d:][:d], skip)
	}
	filterOf(y, x, taps, d, m).rowsFrom(0, past, n, 1, past)
}

// firWork is the largest number of multiply-adds in a call of assembly, unless it is for one tap: about 30 µs.
const firWork = 1 << 20

// directFilter filters rows of in by m taps and adds the result to rows of out.
type directFilter struct {
	out, in Rows
	taps    []float32
	d, m    int
}

// filterOf returns a filter whose rows are contiguous.
func filterOf(out, in, taps []float32, d, m int) directFilter {
	return directFilter{Rows{out, d}, Rows{in, d}, taps, d, m}
}

// rows adds Σ_{i<m, i≤past} taps[i]·in[t-i·step] to count rows t of out, from t on in steps of 1 or -1. past rows of in
// come before the first row, in the direction of the step.
// come before the first one, in the direction of the step.
func (f directFilter) rows(t, count, step, past int) { f.rowsFrom(t, t, count, step, past) }

// rowsFrom is rows if row t of out corresponds to row at of in.
func (f directFilter) rowsFrom(t, at, count, step, past int) {
	height, width := cpu.firTile()
	for count > 0 {
		done, rows := 0, 1
		if cpu.has(firTileCode) && count >= height {
			// All rows of the tile use as many taps as its first row.
			rows, done = height, min(f.m, past+1)/width*width
			f.tile(t, at, step, done, width)
		}
		for range rows {
			past++
			f.row(t, at, step, done, min(f.m, past))
			t, at = t+step, at+step
			count--
		}
	}
}

// tile adds the first n taps, a multiple of width, to a tile of rows.
func (f directFilter) tile(t, at, step, n, width int) {
	part := max(1, firWork/(16*width*f.d)) * width
	for i := 0; i < n; i += part {
		vecFirTile(f.d, min(part, n-i)/width, f.out.at(t), step*f.out.Step, &f.taps[i*f.d], f.in.at(at-i*step),
			step*f.in.Step)
	}
}

// row adds the taps [lo, hi) to one row.
func (f directFilter) row(t, at, step, lo, hi int) {
	if cpu.has(firRowCode) && f.d > 0 {
		part := max(1, firWork/8/f.d)
		for i := lo; i < hi; i += part {
			vecFirRow(f.d, min(part, hi-i), f.out.at(t), &f.taps[i*f.d], f.in.at(at-i*step), step*f.in.Step)
		}
		return
	}
	for i := lo; i < hi; i++ {
		MulAdd(f.out.Row(t, f.d), f.in.Row(at-i*step, f.d), f.taps[i*f.d:][:f.d])
	}
}

// tapRows is the number of positions that FIRTapsGrad processes at a time: their rows stay in the cache for all taps.
const tapRows = 64

// FIRTapsGrad adds the gradient of the taps i in [lo, hi) from one sequence: dtaps[i] += Σ_{t≥i} dy[t]·x[t-i].
func FIRTapsGrad(dtaps, dy, x []float32, d, l, lo, hi int) {
	rows := Rows{x, d}
	if isShort(d, l) && lo < hi {
		shortTapsGrad(dtaps, dy, x, d, l, lo, hi)
		return
	}
	height, width := cpu.firTile()
	for t0 := lo; t0 < l; t0 += tapRows {
		t1 := min(l, t0+tapRows)
		for i := lo; i < hi; {
			if !cpu.has(firTileCode) || hi-i < height {
				tapGrad(dtaps, dy, rows, d, i, max(t0, i), t1)
				i++
				continue
			}
			// From position t on all taps of the tile contribute.
			t := min(t1, max(t0, i+height-1))
			n := (t1 - t) / width
			for r := range height {
				tapGrad(dtaps, dy, rows, d, i+r, max(t0, i+r), t)
			}
			if n > 0 {
				vecFirTile(d, n, &dtaps[i*d], d, &dy[t*d], &x[(t-i)*d], -d)
			}
			for r := range height {
				tapGrad(dtaps, dy, rows, d, i+r, max(t0, i+r, t+n*width), t1)
			}
			i += height
		}
	}
}

// tapGrad adds the contribution of the positions [lo, hi) to the gradient of tap i.
func tapGrad(dtaps, dy []float32, x Rows, d, i, lo, hi int) {
	if cpu.has(firRowCode) && d > 0 {
		if lo < hi {
			vecFirRow(d, hi-lo, &dtaps[i*d], &dy[lo*d], x.at(lo-i), -x.Step)
		}
		return
	}
	for t := lo; t < hi; t++ {
		MulAdd(dtaps[i*d:][:d], dy[t*d:][:d], x.Row(t-i, d))
	}
}

// FIRRows returns the number of rows that FIR processes at a time if there are that many, reading their inputs once.
func FIRRows() int {
	rows, _ := cpu.firTile()
	return rows
}

// firTile returns the number of rows and of taps in a tile of assembly, the same as in internal/asm.
func (l level) firTile() (rows, taps int) {
	if l.narrow() {
		return 9, 4
	}
	return 16, 8
}
