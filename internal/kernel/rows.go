package kernel

// Rows are rows of up to Lanes channels that lie Step floats apart: channel v of row t is X[t·Step + v]. A Step of 0
// repeats one row.
type Rows struct {
	X    []float32
	Step int
}

// Ones returns a row of ones, repeated.
func Ones() Rows { return Rows{X: ones[:]} }

var ones = [Lanes]float32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}

// Row returns row t, width channels wide.
func (r Rows) Row(t, width int) []float32 { return r.X[t*r.Step:][:width] }

// at returns the address of the first channel of row t.
func (r Rows) at(t int) *float32 { return &r.X[t*r.Step] }

// check panics unless there are n rows of Lanes channels.
func (r Rows) check(n int) { _ = r.X[(n-1)*r.Step:][:Lanes] }

// mulRowsPortable is the portable MulRows.
func mulRowsPortable(z, x, y Rows, n, width int) {
	for t := range n {
		z, x, y := z.Row(t, width), x.Row(t, width), y.Row(t, width)
		for v := range z {
			z[v] = x[v] * y[v]
		}
	}
}

// mulAddRowsPortable is the portable MulAddRows.
func mulAddRowsPortable(z, a, x, y Rows, n, width int) {
	for t := range n {
		z, a, x, y := z.Row(t, width), a.Row(t, width), x.Row(t, width), y.Row(t, width)
		for v := range z {
			z[v] = a[v] + float32(x[v]*y[v])
		}
	}
}

// From returns the rows from t on.
func (r Rows) From(t int) Rows { return Rows{r.X[t*r.Step:], r.Step} }

// Columns selects channels: channel v of row t is X[t·Step + At[v]]. Several may be the same.
type Columns struct {
	X    []float32
	Step int
	At   []int
}

// gatherPortable is the portable Gather.
func gatherPortable(z Rows, x Columns, n int) {
	for t := range n {
		row, z := x.X[t*x.Step:], z.Row(t, len(x.At))
		for v, at := range x.At {
			z[v] = row[at]
		}
	}
}

// scatterPortable is the portable Scatter.
func scatterPortable(z Columns, x Rows, n int) {
	for t := range n {
		row, x := z.X[t*z.Step:], x.Row(t, len(z.At))
		for v, at := range z.At {
			row[at] += x[v]
		}
	}
}

// rowsPerCall is the number of rows in a call of assembly: some 50 µs if they come from memory.
const rowsPerCall = 1024

// MulRows sets z = x·y element by element, for the first width ≤ Lanes channels of n rows. z may be x or y.
func MulRows(z, x, y Rows, n, width int) {
	if !cpu.has(mulRowsCode) || width < Lanes || n == 0 {
		mulRowsPortable(z, x, y, n, width)
		return
	}
	z.check(n)
	x.check(n)
	y.check(n)
	for t := 0; t < n; t += rowsPerCall {
		vecMulRows(&z.X[t*z.Step], z.Step, &x.X[t*x.Step], x.Step, &y.X[t*y.Step], y.Step, min(rowsPerCall, n-t))
	}
}

// MulAddRows sets z = a + x·y element by element, for the first width ≤ Lanes channels of n rows. z may be a, x or y.
func MulAddRows(z, a, x, y Rows, n, width int) {
	if !cpu.has(mulAddRowsCode) || width < Lanes || n == 0 {
		mulAddRowsPortable(z, a, x, y, n, width)
		return
	}
	z.check(n)
	a.check(n)
	x.check(n)
	y.check(n)
	for t := 0; t < n; t += rowsPerCall {
		vecMulAddRows(&z.X[t*z.Step], z.Step, &a.X[t*a.Step], a.Step, &x.X[t*x.Step], x.Step, &y.X[t*y.Step],
			y.Step, min(rowsPerCall, n-t))
	}
}

// Prefetch fetches n rows of x that will be needed soon into the cache: they may be too far apart for the processor's
// own prefetcher.
func Prefetch(x Rows, n int) {
	if !cpu.has(prefetchRowsCode) || n <= 0 {
		return
	}
	_ = x.X[(n-1)*x.Step]
	vecPrefetchRows(&x.X[0], x.Step, n)
}

// Gather copies n rows of the channels of x, at most Lanes, to z.
func Gather(z Rows, x Columns, n int) {
	if !cpu.has(gatherCode) || len(x.At) < Lanes || n == 0 {
		gatherPortable(z, x, n)
		return
	}
	z.check(n)
	x.check(n)
	for t := 0; t < n; t += rowsPerCall {
		vecGather(&z.X[t*z.Step], z.Step, &x.X[t*x.Step], x.Step, &x.At[0], min(rowsPerCall, n-t))
	}
}

// Scatter adds n rows of x to the channels of z, at most Lanes, one channel after the other.
func Scatter(z Columns, x Rows, n int) {
	if !cpu.has(scatterCode) || len(z.At) < Lanes || n == 0 {
		scatterPortable(z, x, n)
		return
	}
	z.check(n)
	x.check(n)
	for t := 0; t < n; t += rowsPerCall {
		vecScatter(&z.X[t*z.Step], z.Step, &z.At[0], &x.X[t*x.Step], x.Step, min(rowsPerCall, n-t))
	}
}

// check panics unless there are n rows with the channels.
func (c Columns) check(n int) {
	for _, at := range c.At {
		_, _ = c.X[at], c.X[(n-1)*c.Step+at]
	}
}
