package kernel

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkVectors reports ns per element in the first-level cache at every level (for FIR and its gradients, per tap
// and element).
func BenchmarkVectors(b *testing.B) {
	const n, d, rows, m, l = 1000, 256, 4, 64, 256
	rng := rand.New(rand.NewPCG(18, 18))
	var a, fresh [5][]float32
	for i := range a {
		fresh[i] = normals(rng, n+d)
		a[i] = make([]float32, n+d)
	}
	x, y, taps := normals(rng, l*d), normals(rng, l*d), normals(rng, m*d)
	type run struct {
		name  string
		count float64 // elements
		f     func()
	}
	var runs []run
	for _, k := range pointwise {
		runs = append(runs, run{k.name, n, func() { k.run(slicesOf(a[:k.arrays], n)) }})
	}
	runs = append(runs,
		run{"Drop", n, func() { Drop(a[0][:n], 1, 2, 1<<30, 1) }},
		run{"Softmax", n, func() { Softmax(a[0][:n], 0.5) }},
		run{"Dot", n, func() { Dot(a[0][:n], a[1]) }},
		run{"Dot of 64", 64, func() { Dot(a[0][:64], a[1]) }},
		run{"SumSquares", n, func() { SumSquares(a[0][:n]) }},
		run{"AllFinite", n, func() { AllFinite(a[4][:n]) }},
		run{"LogSumExp", n, func() { LogSumExp(a[4][:n]) }},
		run{"LayerNorm", rows * d, func() { LayerNorm(a[0], x[:rows], x[rows:2*rows], a[1], a[2], a[3], d, 1e-5) }},
		run{"LayerNormGrad", rows * d, func() { LayerNormGrad(a[0], a[1], a[2], a[3], x[:rows], x[rows:2*rows], d) }},
		run{"LayerNormParamGrad", rows * d, func() {
			LayerNormParamGrad(a[0], a[1], a[2], a[3], x[:rows], x[rows:2*rows], d)
		}},
		run{"FIR", l*m - m*(m-1)/2, func() { FIR(y, x, taps, taps, d, m, 0, l) }},
		run{"FIRGrad", l*m - m*(m-1)/2, func() { FIRGrad(y, x, taps, taps, d, m, l, 0, l) }},
		run{"FIRTapsGrad", l*m - m*(m-1)/2, func() { FIRTapsGrad(taps, x, y, d, l, 0, m) }},
	)
	defer func(old level) { cpu = old }(cpu)
	for _, r := range runs {
		if r.name[:3] == "FIR" {
			r.count *= d
		}
		for _, cpu = range machineLevels() {
			b.Run(r.name+"/"+cpu.String(), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					if i%16 == 0 && r.count == n { // before anything becomes denormal or infinite
						for j := range a {
							copy(a[j], fresh[j])
						}
					}
					r.f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/r.count, "ns/element")
			})
		}
	}
}

func slicesOf(a [][]float32, n int) [][]float32 {
	out := make([][]float32, len(a))
	for i := range a {
		out[i] = a[i][:n]
	}
	return out
}
