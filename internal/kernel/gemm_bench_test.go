package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

func BenchmarkGemm(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	shapes := []struct{ m, n, k int }{
		{256, 256, 256}, {1024, 1024, 1024}, {4096, 64, 64}, {4096, 512, 128}, {4096, 128, 512}, {512, 32, 32},
		{1, 256, 256}, {1, 3072, 768}, {4, 256, 256}, {128, 128, 4096},
	}
	for _, procs := range []int{1, runtime.GOMAXPROCS(0)} {
		for _, op := range []Op{NN, NT, TN} {
			for _, s := range shapes {
				b.Run(fmt.Sprintf("cores=%d/%s/%dx%dx%d", procs, opNames[op], s.m, s.n, s.k), func(b *testing.B) {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
					// Untouched memory is one page of zeros mapped many times, which is slow with some caches.
					x, y, z := normals(rng, s.m*s.k), normals(rng, s.n*s.k), normals(rng, s.m*s.n)
					lda, ldb := s.k, s.n
					if op == NT {
						ldb = s.k
					}
					if op == TN {
						lda = s.m
					}
					for b.Loop() {
						Gemm(Product{Op: op, M: s.m, N: s.n, K: s.k, A: x, LDA: lda, B: y, LDB: ldb, C: z, LDC: s.n})
					}
					b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9,
						"GF/s")
				})
			}
		}
	}
}

func BenchmarkVector(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	x, y := normals(rng, 1024), normals(rng, 1024)
	b.Run("Dot", func(b *testing.B) {
		for b.Loop() {
			y[0] = Dot(x, y)
		}
		b.ReportMetric(2*1024*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
	})
	b.Run("Axpy", func(b *testing.B) {
		for b.Loop() {
			Axpy(0.5, x, y)
		}
		b.ReportMetric(2*1024*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
	})
}
