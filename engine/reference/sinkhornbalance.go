package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SinkhornBalance divides rows and columns of e^x by their sums in turn. It computes with logarithms F, head by head:
//
//	F'[u,v] = F[u,v] - log Σ_j e^F[u,j],   F''[u,v] = F'[u,v] - log Σ_i e^F'[i,v],   P = e^F after the last
//
// If causal, only entries with v < u are kept, and the sum over i ends at u. Backward, starting from dF = P ⊙ dP:
//
//	dF'[i,v] = dF''[i,v] - Σ_u dF''[u,v]·e^F'[i,v]/Σ_j e^F'[j,v],   dF[u,v] = dF'[u,v] - e^F'[u,v]·Σ_j dF'[u,j]
//
// where, if causal, the sums are those of row u, and u ≥ i.
func (eng *Engine) SinkhornBalance(x *tensor.Tensor, o engine.BalanceOptions) *tensor.Tensor {
	b, n := x.Rows(), x.Dim(-1)/o.Heads
	y := eng.New(b, o.Heads*b)
	xs, ys := eng.values(x), eng.values(y)
	// part returns the b entries of row u in head h.
	part := func(x []float64, h, width, u int) []float64 { return x[(u*o.Heads+h)*width:][:b] }
	halves := make([][][][]float64, o.Heads) // F before each division
	for h := range o.Heads {
		f := make([][]float64, b)
		for u := range f {
			f[u] = append([]float64(nil), part(xs, h, n, u)...)
		}
		for range o.Rounds {
			rows := divideRows(f, o.Causal)
			columns := divideColumns(rows, o.Causal)
			halves[h] = append(halves[h], f, rows)
			f = columns
		}
		for u := range b {
			for v := range sees(u, b, o.Causal) {
				part(ys, h, b, u)[v] = math.Exp(f[u][v])
			}
		}
	}
	eng.record("SinkhornBalance", list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		for h := range o.Heads {
			df := make([][]float64, b)
			for u := range b {
				df[u] = make([]float64, b)
				for v := range sees(u, b, o.Causal) {
					df[u][v] = part(ys, h, b, u)[v] * part(dy, h, b, u)[v]
				}
			}
			for i := 2*o.Rounds - 1; i > 0; i -= 2 {
				divideColumnsGrad(df, halves[h][i], o.Causal)
				divideRowsGrad(df, halves[h][i], o.Causal)
			}
			for u := range b {
				for v := range sees(u, b, o.Causal) {
					part(dx, h, n, u)[v] += df[u][v]
				}
			}
		}
	})
	return y
}

// sees returns the number of blocks, counted from the first, for which block u of b has weights.
func sees(u, b int, causal bool) int {
	if causal {
		return u
	}
	return b
}

// divideRows returns F' of F.
func divideRows(f [][]float64, causal bool) [][]float64 {
	y := make([][]float64, len(f))
	for u, row := range f {
		y[u] = make([]float64, len(f))
		sum := logSumExp(row[:sees(u, len(f), causal)])
		for v := range sees(u, len(f), causal) {
			y[u][v] = row[v] - sum
		}
	}
	return y
}

// summed returns the entries of column v that are summed for row u: all, or if causal those of rows v+1 to u.
func summed(f [][]float64, u, v int, causal bool) (c []float64) {
	for i := range f {
		if !causal || v < i && i <= u {
			c = append(c, f[i][v])
		}
	}
	return c
}

// divideColumns returns F” of F'.
func divideColumns(f [][]float64, causal bool) [][]float64 {
	y := make([][]float64, len(f))
	for u := range f {
		y[u] = make([]float64, len(f))
		for v := range sees(u, len(f), causal) {
			y[u][v] = f[u][v] - logSumExp(summed(f, u, v, causal))
		}
	}
	return y
}

// divideColumnsGrad turns the gradient of F″ into dF'.
func divideColumnsGrad(df, f [][]float64, causal bool) {
	for v := range f {
		add := make([]float64, len(f))
		for u := range f {
			if v >= sees(u, len(f), causal) {
				continue
			}
			sum := logSumExp(summed(f, u, v, causal))
			for i := range f {
				if !causal || v < i && i <= u {
					add[i] -= df[u][v] * math.Exp(f[i][v]-sum)
				}
			}
		}
		for i := range f {
			df[i][v] += add[i]
		}
	}
}

// divideRowsGrad turns dF' into dF, by e^F'.
func divideRowsGrad(df, f [][]float64, causal bool) {
	for u := range f {
		sum := 0.0
		for v := range sees(u, len(f), causal) {
			sum += df[u][v]
		}
		for v := range sees(u, len(f), causal) {
			df[u][v] -= math.Exp(f[u][v]) * sum
		}
	}
}

// logSumExp returns log Σ e^x.
func logSumExp(x []float64) float64 {
	largest, sum := math.Inf(-1), 0.0
	for _, v := range x {
		largest = max(largest, v)
	}
	for _, v := range x {
		sum += math.Exp(v - largest)
	}
	return largest + math.Log(sum)
}
