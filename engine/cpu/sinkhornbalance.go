package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// SinkhornBalance computes heads in parallel, in float64, because the matrices have blocks, not positions, as rows. Row
// u of a causal matrix needs a running sum of each column, so a round costs b² for b blocks. Backward computes the
// logarithms again.
func (eng *Engine) SinkhornBalance(x *tensor.Tensor, o engine.BalanceOptions) *tensor.Tensor {
	b := x.Rows()
	y := eng.New(b, o.Heads*b)
	op := balanceOp{x: x, y: y, BalanceOptions: o}
	parallel.For(o.Heads, rowGrain(2*o.Rounds*b*b*8), func(lo, hi int) {
		for h := lo; h < hi; h++ {
			f := op.start(h)
			for range o.Rounds {
				f.divideRows()
				f.divideColumns()
			}
			for u := range b {
				row := y.Data()[(u*o.Heads+h)*b:][:b]
				clear(row)
				for v, l := range f.row(u) {
					row[v] = float32(math.Exp(l))
				}
			}
		}
	})
	record(eng, "SinkhornBalance", op, y, x)
	return y
}

type balanceOp struct {
	x, y *tensor.Tensor
	engine.BalanceOptions
}

// logarithms holds F (b, b) of one head, and for each entry the logarithm of the sum that last divided its column.
type logarithms struct {
	f, sums []float64
	b       int
	causal  bool
}

// start returns F before the first round.
func (o *balanceOp) start(h int) *logarithms {
	b, n := o.x.Rows(), o.x.Dim(-1)/o.Heads
	f := &logarithms{f: make([]float64, b*b), sums: make([]float64, b*b), b: b, causal: o.Causal}
	for u := range b {
		for v := range f.row(u) {
			f.f[u*b+v] = float64(o.x.Data()[(u*o.Heads+h)*n+v])
		}
	}
	return f
}

// row returns the entries of block u.
func (f *logarithms) row(u int) []float64 {
	if f.causal {
		return f.f[u*f.b:][:u]
	}
	return f.f[u*f.b:][:f.b]
}

func (f *logarithms) divideRows() {
	for u := range f.b {
		row := f.row(u)
		sum := math.Inf(-1)
		for _, l := range row {
			sum = logAdd(sum, l)
		}
		for v := range row {
			row[v] -= sum
		}
	}
}

func (f *logarithms) divideColumns() {
	running := make([]float64, f.b)
	for v := range running {
		running[v] = math.Inf(-1)
	}
	for u := range f.b {
		for v, l := range f.row(u) {
			running[v] = logAdd(running[v], l)
			f.sums[u*f.b+v] = running[v]
		}
	}
	for u := range f.b {
		row := f.row(u)
		for v := range row {
			if f.causal {
				row[v] -= f.sums[u*f.b+v]
			} else {
				row[v] -= running[v]
				f.sums[u*f.b+v] = running[v]
			}
		}
	}
}

// logAdd returns log(e^a + e^b).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

func (o *balanceOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil {
		return
	}
	b, n := o.x.Rows(), o.x.Dim(-1)/o.Heads
	parallel.For(o.Heads, rowGrain(6*o.Rounds*b*b*8), func(lo, hi int) {
		for h := lo; h < hi; h++ {
			f := o.start(h)
			var rows, sums [][]float64 // after the division of rows, in each round
			for range o.Rounds {
				f.divideRows()
				rows = append(rows, append([]float64(nil), f.f...))
				f.divideColumns()
				sums = append(sums, append([]float64(nil), f.sums...))
			}
			df := &logarithms{f: make([]float64, b*b), b: b, causal: o.Causal}
			for u := range b {
				for v := range df.row(u) {
					at := (u*o.Heads+h)*b + v
					df.f[u*b+v] = float64(o.y.Data()[at]) * float64(dy[at])
				}
			}
			for i := o.Rounds - 1; i >= 0; i-- {
				df.back(rows[i], sums[i])
			}
			for u := range b {
				for v, g := range df.row(u) {
					dx[(u*o.Heads+h)*n+v] += float32(g)
				}
			}
		}
	})
}

// back propagates gradients through a round, given F after the division of rows and the sums of columns. In a causal
// column an entry is part of its own sum and of those of later rows. With L the logarithms of the sums and W the
// gradients that come from them, it computes from the last row up
//
//	W[u] = df[u] + e^(L[u]-L[u+1])·W[u+1],   df[u] ← df[u] - e^(F[u]-L[u])·W[u]
//
// where no factor is larger than 1. If not causal, all entries of a column have one sum, and W is the sum over all
// entries.
func (f *logarithms) back(rows, sums []float64) {
	b := f.b
	w, whole := make([]float64, b), make([]float64, b)
	for u := range b {
		for v, g := range f.row(u) {
			whole[v] += g
		}
	}
	for u := b - 1; u >= 0; u-- {
		row, total := f.row(u), 0.0
		for v, g := range row {
			at := u*b + v
			if w[v] += g; !f.causal {
				w[v] = whole[v]
			}
			row[v] = g - math.Exp(rows[at]-sums[at])*w[v]
			total += row[v]
			if f.causal && u-1 > v { // the logarithm of the previous row's sum
				w[v] *= math.Exp(sums[at-b] - sums[at])
			}
		}
		for v := range row {
			row[v] -= math.Exp(rows[u*b+v]) * total
		}
	}
}
