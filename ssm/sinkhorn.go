package ssm

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// SinkhornOperator divides the rows and the columns of e^r alternately by their sums, for the given number of rounds,
// and returns the result. It tends to a doubly stochastic matrix: a soft permutation that sorts by r. It works on
// logarithms and does not change r. Sinkhorn 1964; Tay et al., Sparse Sinkhorn Attention, arXiv:2002.11296, §3.1.2.
func SinkhornOperator(r [][]float64, rounds int) [][]float64 {
	p := make([][]float64, len(r))
	for i, row := range r {
		p[i] = append([]float64(nil), row...)
	}
	column := make([]float64, len(r))
	for range rounds {
		for _, row := range p {
			floats.AddConst(-floats.LogSumExp(row), row)
		}
		for j := range p[0] {
			for i, row := range p {
				column[i] = row[j]
			}
			lse := floats.LogSumExp(column)
			for _, row := range p {
				row[j] -= lse
			}
		}
	}
	for _, row := range p {
		for j, v := range row {
			row[j] = math.Exp(v)
		}
	}
	return p
}

// sinkhornEps keeps the arguments of the release's logarithms above zero.
const sinkhornEps = 1e-6

// GumbelNoise returns -log(-log u), which is Gumbel distributed for u uniform in (0, 1).
func GumbelNoise(u float64) float64 {
	return -math.Log(-math.Log(u+sinkhornEps) + sinkhornEps)
}

// GumbelSinkhorn returns SinkhornOperator of (log max(r, 0) + noise)/temperature, where the noise is computed from
// uniform numbers u, one for each entry of r. The result is a random soft permutation. The lower the temperature, the
// harder it is. Mena et al., arXiv:1802.08665.
func GumbelSinkhorn(r, u [][]float64, temperature float64, rounds int) [][]float64 {
	x := make([][]float64, len(r))
	for i, row := range r {
		x[i] = make([]float64, len(row))
		for j, v := range row {
			x[i][j] = (math.Log(max(v, 0)+sinkhornEps) + GumbelNoise(u[i][j])) / temperature
		}
	}
	return SinkhornOperator(x, rounds)
}
