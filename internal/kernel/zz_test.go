package kernel

import "testing"

func BenchmarkZZ(b *testing.B) {
	m, n, k := 768, 768, 4096
	x, y, z := make([]float32, m*k), make([]float32, n*k), make([]float32, m*n)
	for i := range x {
		x[i], y[i] = 1, 1
	}
	for b.Loop() {
		GemmInline(TN, m, n, k, x, m, y, n, z, n, nil, false)
	}
	b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
}
