package kernel

// Transpose sets y[j, i] = x[i, j] for i < rows, j < cols, where y[j, i] is y[j·ldy + i] and x[i, j] is x[i·ldx + j].
// If ldy or ldx is negative, rows are counted from the last one: then y[j, i] is y[(j-cols+1)·ldy + i], or x[i, j] is
// x[(i-rows+1)·ldx + j].
func Transpose(rows, cols int, y []float32, ldy int, x []float32, ldx int) {
	if rows == 0 || cols == 0 {
		return
	}
	x0, y0 := max(0, (1-rows)*ldx), max(0, (1-cols)*ldy) // indices of the elements [0, 0]
	transposeFrom(rows, cols, y, y0, ldy, x, x0, ldx)
}

// transposePortable is Transpose for the rows from i0 and the columns from j0 on, where the elements [0, 0] are at x0
// and y0.
func transposePortable(i0, rows, j0, cols int, y []float32, y0, ldy int, x []float32, x0, ldx int) {
	for i := i0; i < rows; i++ {
		for j := j0; j < cols; j++ {
			y[y0+j*ldy+i] = x[x0+i*ldx+j]
		}
	}
}

const (
	transposeTile = 8
	transposeDown = 2       // tiles at a time, so that whole cache lines are read or written
	transposeCall = 1 << 11 // tiles across in a call, some 50 µs
)

// transposeFrom is Transpose for a matrix that is not empty, with the elements [0, 0] at x0 and y0.
func transposeFrom(rows, cols int, y []float32, y0, ldy int, x []float32, x0, ldx int) {
	down, across := rows/transposeTile, cols/transposeTile
	if !cpu.has(transposeCode) || down == 0 || across == 0 {
		transposePortable(0, rows, 0, cols, y, y0, ldy, x, x0, ldx)
		return
	}
	_, _, _, _ = x[x0+cols-1], x[x0+(rows-1)*ldx+cols-1], y[y0+rows-1], y[y0+(cols-1)*ldy+rows-1]
	for d := 0; d < down; d += transposeDown {
		i, high := d*transposeTile, min(transposeDown, down-d)
		for a := 0; a < across; a += transposeCall {
			j := a * transposeTile
			vecTranspose(high, min(transposeCall, across-a), &y[y0+j*ldy+i], ldy, &x[x0+i*ldx+j], ldx)
		}
	}
	i, j := down*transposeTile, across*transposeTile
	transposePortable(i, rows, 0, cols, y, y0, ldy, x, x0, ldx)
	if j < cols {
		transposePortable(0, i, j, cols, y, y0, ldy, x, x0, ldx)
	}
}
