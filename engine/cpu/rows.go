package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// grain is the number of elements of a task (a chunk of parallel.For) of pointwise work.
const grain = 1 << 14

// rowGrain returns grain in positions of d elements.
func rowGrain(d int) int { return max(1, grain/max(1, d)) }

// overRows calls f on all cores for pieces of the rows: up to g positions [lo, hi) of row i.
func overRows(r *engine.Rows, g int, f func(i, lo, hi int)) {
	if l := r.Equal(); l > 0 {
		overPositions(r.Count(), l, g, f)
		return
	}
	overPieces(r, g, max(1, g*r.Count()/r.Total()), f)
}

// overPieces is overRows with grain pieces per task.
func overPieces(r *engine.Rows, g, grain int, f func(i, lo, hi int)) {
	pieces := 0
	for i := range r.Count() {
		pieces += (r.Len(i) + g - 1) / g
	}
	parallel.For(pieces, grain, func(p0, p1 int) {
		at := 0 // number of pieces before row i
		for i := 0; i < r.Count() && at < p1; i++ {
			l := r.Len(i)
			n := (l + g - 1) / g
			for p := max(p0, at); p < min(p1, at+n); p++ {
				lo := (p - at) * g
				f(i, lo, min(l, lo+g))
			}
			at += n
		}
	})
}

// overPositions is overRows for n rows of l positions each.
func overPositions(n, l, g int, f func(i, lo, hi int)) {
	pieces := (l + g - 1) / g
	parallel.For(n*pieces, max(1, g/max(1, l)), func(p0, p1 int) {
		for p := p0; p < p1; p++ {
			lo := p % pieces * g
			f(p/pieces, lo, min(l, lo+g))
		}
	})
}

// narrowRows is the largest n for which addRows adds many rows in one call of a kernel.
const narrowRows = 128

// sumRows adds Σ_r x[r, :] to y (n).
func sumRows(eng *Engine, y, x []float32, n int) {
	eng.sumParts(len(x)/n, rowGrain(n), n, func(p []float32, lo, hi int) { addRows(p, x[lo*n:hi*n]) },
		func(p []float32) { kernel.Add(y, p) })
}

// sumParts sums over rows. part adds the rows [lo, hi) to a p (n) of zeros, and add adds all p in order. The ranges
// have g rows, so that the result does not depend on the number of cores.
func (eng *Engine) sumParts(rows, g, n int, part func(p []float32, lo, hi int), add func(p []float32)) {
	chunks := (rows + g - 1) / g
	partial := eng.scratch(chunks * n)
	defer eng.done(partial)
	parallel.For(rows, g, func(lo, hi int) { part(partial[lo/g*n:][:n], lo, hi) })
	for c := range chunks {
		add(partial[c*n:][:n])
	}
}

// addRows adds Σ_r x[r, :] to y, in the order of r.
func addRows(y, x []float32) {
	n := len(y)
	if n <= narrowRows { // a call for each row would take longer than the row
		kernel.SumRows(y, x)
		return
	}
	for ; len(x) > 0; x = x[n:] {
		kernel.Add(y, x[:n])
	}
}

var floatPool = sync.Pool{New: func() any { return new([]float32) }}

// getFloats lends n floats with unspecified contents to a task of a parallel loop, in which the arena cannot be used.
func getFloats(n int) *[]float32 {
	buf := floatPool.Get().(*[]float32)
	*buf = resize(*buf, n)
	return buf
}

func putFloats(buf *[]float32) { floatPool.Put(buf) }
