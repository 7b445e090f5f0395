package bench

import (
	"context"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
)

// products are the matrix products that are measured for OpenBLAS: square ones, those of a layer of H3-125M on 4096
// tokens (forward, and backward to the weights), and those of a layer of width 256 on 1024.
var products = []struct {
	m, n, k int
	op      kernel.Op
}{
	{1024, 1024, 1024, kernel.NN}, {1024, 1024, 1024, kernel.NT}, {1024, 1024, 1024, kernel.TN},
	{4096, 768, 768, kernel.NN}, {4096, 768, 768, kernel.NT},
	{4096, 3072, 768, kernel.NN}, {4096, 3072, 768, kernel.NT}, {768, 768, 4096, kernel.TN},
	{1024, 1024, 256, kernel.NN}, {1024, 1024, 256, kernel.NT}, {1024, 256, 1024, kernel.TN},
}

var opNames = map[kernel.Op]string{kernel.NN: "NN", kernel.NT: "NT", kernel.TN: "TN"}

// gemmCases measure C = A·B in float32, and with the operands rounded to bf16: gflops by CPU time, gflops_wall by wall
// time, and gflops_best, the best of nine repetitions by wall time, as printed by the program that measures OpenBLAS.
func gemmCases(shrink int) []Case {
	var cases []Case
	for i := range 2 * len(products) { // the precisions in turn, so that both are measured within the same minute
		p, gemm, precision := products[i/2], kernel.Gemm, engine.Float32
		if i%2 == 1 {
			gemm, precision = kernel.GemmBF16, engine.BF16
		}
		m, n, k := p.m/shrink, p.n/shrink, p.k/shrink
		cases = append(cases, Case{
			ID: Row{{"bench", "gemm"}, {"m", float64(m)}, {"n", float64(n)}, {"k", float64(k)}, {"op", opNames[p.op]},
				{"precision", precision.String()}},
			prepare: func(context.Context) (trial, error) {
				rng := rand.New(rand.NewPCG(1, 1))
				a, b, c := uniform(rng, m*k), uniform(rng, k*n), uniform(rng, m*n)
				lda, ldb := k, n
				if p.op == kernel.TN {
					lda = m
				}
				if p.op == kernel.NT {
					ldb = k
				}
				run := func() error {
					gemm(kernel.Product{Op: p.op, M: m, N: n, K: k, A: a, LDA: lda, B: b, LDB: ldb, C: c, LDC: n})
					return nil
				}
				giga := 2 * float64(m) * float64(n) * float64(k) / 1e9
				return trial{runs: []func() error{run}, fields: func(t []Timing) Row {
					return Row{{"gflops", rounded(giga / t[0].CPU)}, {"gflops_wall", rounded(giga / t[0].Wall)},
						{"gflops_best", rounded(giga / t[0].Best)}}
				}}, nil
			},
		})
	}
	return cases
}

// uniform returns n numbers between -1/2 and 1/2. They are written because memory that was never written is one page of
// zeros.
func uniform(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = rng.Float32() - 0.5
	}
	return x
}
