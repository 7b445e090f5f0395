package kernel

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// lengths returns the lengths of all tails of all vectors, and some greater lengths.
func lengths() []int {
	var n []int
	for i := range 68 {
		n = append(n, i)
	}
	return append(n, 127, 128, 255, 1000, callLength+5)
}

// framed is n floats surrounded by NaN, starting at an odd offset.
type framed struct {
	all    []float32
	at, to int
}

func frame(x []float32, offset int) framed {
	g := framed{all: make([]float32, offset+len(x)+35), at: offset, to: offset + len(x)}
	for i := range g.all {
		g.all[i] = nan
	}
	copy(g.x(), x)
	return g
}

func (g framed) x() []float32 { return g.all[g.at:g.to] }

func (g framed) check(t *testing.T, what string) {
	t.Helper()
	for i, v := range g.all {
		if (i < g.at || i >= g.to) && !isNaN(v) {
			t.Fatalf("%s: wrote at %d of %d", what, i-g.at, g.to-g.at)
		}
	}
}

// pointwiseKernel is a kernel that computes each element alone. run gets its arrays and writes the first of them; want
// returns their expected values for one element of each array.
type pointwiseKernel struct {
	name   string
	arrays int
	run    func(a [][]float32)
	want   func(v []float64) []float64 // of as many arrays as are written
}

// pointwise lists the kernels that compute each element alone.
var pointwise = append(activationKernels(), []pointwiseKernel{
	{"Add", 2, func(a [][]float32) { Add(a[0], a[1]) }, func(v []float64) []float64 { return []float64{v[0] + v[1]} }},
	{"Mul", 2, func(a [][]float32) { Mul(a[0], a[1]) }, func(v []float64) []float64 { return []float64{v[0] * v[1]} }},
	{"AddInto", 3, func(a [][]float32) { AddInto(a[0], a[1], a[2]) },
		func(v []float64) []float64 { return []float64{v[1] + v[2]} }},
	{"MulInto", 3, func(a [][]float32) { MulInto(a[0], a[1], a[2]) },
		func(v []float64) []float64 { return []float64{v[1] * v[2]} }},
	{"MulAdd", 3, func(a [][]float32) { MulAdd(a[0], a[1], a[2]) },
		func(v []float64) []float64 { return []float64{v[0] + v[1]*v[2]} }},
	{"Scale", 1, func(a [][]float32) { Scale(a[0], -1.7) },
		func(v []float64) []float64 { return []float64{v[0] * float64(float32(-1.7))} }},
	{"Axpy", 2, func(a [][]float32) { Axpy(0.3, a[1], a[0]) },
		func(v []float64) []float64 { return []float64{v[0] + float64(float32(0.3))*v[1]} }},
	{"ExpShift", 1, func(a [][]float32) { ExpShift(a[0], 0.5, 2) },
		func(v []float64) []float64 { return []float64{2 * math.Exp(v[0]-0.5)} }},
	{"SoftmaxAgain", 1, func(a [][]float32) { SoftmaxAgain(a[0], 0.5, 0.7) },
		func(v []float64) []float64 { return []float64{math.Exp(0.5*v[0] - float64(float32(0.7)))} }},
	{"SoftmaxGrad", 2, func(a [][]float32) { SoftmaxGrad(a[0], a[1], 0.25, 0.5) },
		func(v []float64) []float64 { return []float64{v[1] * (v[0] - 0.25) * 0.5} }},
	{"GLU", 3, func(a [][]float32) { GLU(a[0], a[1], a[2]) },
		func(v []float64) []float64 { return []float64{v[1] * sigmoid64(v[2])} }},
	{"GLUGrad", 5, func(a [][]float32) { GLUGrad(a[0], a[1], a[2], a[3], a[4]) }, func(v []float64) []float64 {
		s := sigmoid64(v[4])
		return []float64{v[0] + v[2]*s, v[1] + v[2]*v[3]*s*(1-s)}
	}},
	{"AdamW", 4, func(a [][]float32) {
		Axpy(-1, a[2], a[2])
		MulAdd(a[2], a[3], a[3]) // second moments are squares
		AdamW(a[0], a[1], a[2], a[3], &adamWTest)
	}, func(v []float64) []float64 {
		s := adamWTest
		g := v[3] * s.GradScale
		m, v2 := s.Beta1*v[1]+(1-s.Beta1)*g, s.Beta2*v[3]*v[3]+(1-s.Beta2)*g*g
		return []float64{v[0]*(1-s.LR*s.Decay) - s.LR*m/s.Correct1/(math.Sqrt(v2/s.Correct2)+s.Eps), m, v2, 0}
	}},
}...)

var adamWTest = AdamWStep{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-6, Decay: 0.1,
	GradScale: 0.5, Correct1: 0.3, Correct2: 0.2}

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
func geluArg64(x float64) float64 { return geluA * (x + geluB*x*x*x) }

// TestPointwise checks, at every level, for every tail and from odd offsets, that the result is that of the definition,
// stays within its slice, and is the same for each element as for that element alone.
func TestPointwise(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		const tol = 5e-7 // a few rounding errors of 6e-8 in products of up to three inputs
		for _, k := range pointwise {
			name := fnv.New64a() // own numbers: a new row changes nothing for the others
			name.Write([]byte(k.name))
			rng := rand.New(rand.NewPCG(11, name.Sum64()))
			for _, n := range lengths() {
				a, in := make([][]float32, k.arrays), make([][]float32, k.arrays)
				g := make([]framed, k.arrays)
				for j := range a {
					in[j] = normals(rng, n)
					for i := range in[j] {
						in[j][i] *= 3
					}
					g[j] = frame(in[j], rng.IntN(20))
					a[j] = g[j].x()
				}
				k.run(a)
				what := fmt.Sprintf("%s of %d", k.name, n)
				for j := range g {
					g[j].check(t, what)
				}
				v, one := make([]float64, k.arrays), make([][]float32, k.arrays)
				for i := range n {
					size := 1.0
					for j := range v {
						v[j] = float64(in[j][i])
						one[j] = []float32{in[j][i]}
						size = max(size, math.Abs(v[j]))
					}
					want := k.want(v)
					for j, w := range want {
						if e := math.Abs(float64(a[j][i]) - w); !(e <= tol*max(size, math.Abs(w))) {
							t.Fatalf("%s: array %d, element %d of %v is %v, want %v", what, j, i, v, a[j][i], w)
						}
					}
					for j := len(want); j < k.arrays; j++ {
						if a[j][i] != in[j][i] {
							t.Fatalf("%s: input %d changes", what, j)
						}
					}
					if n > 70 && i%97 != 0 {
						continue
					}
					k.run(one)
					for j := range one {
						if one[j][0] != a[j][i] {
							t.Fatalf("%s: array %d, element %d is %v, %v when alone", what, j, i, a[j][i], one[j][0])
						}
					}
				}
			}
		}
	})
}

// TestPointwiseOfOddities checks that NaN, infinities, zeros and denormals give the same as in the portable code: the
// same kind of number, and the same value up to rounding.
func TestPointwiseOfOddities(t *testing.T) {
	odd := []float32{nan, inf, -inf, 0, float32(math.Copysign(0, -1)), denormal, -denormal, 0x1p-126, 0x1p-140,
		1, -1, 88.7, 89, -87.4, -103.9, 1e-20, 1e15, -1e15}
	kind := func(x float32) string {
		switch {
		case isNaN(x):
			return "NaN"
		case math.IsInf(float64(x), 0):
			return fmt.Sprint(x)
		}
		return "finite"
	}
	for _, k := range pointwise {
		rng := rand.New(rand.NewPCG(12, 12))
		in := make([][]float32, k.arrays)
		for range 20 * len(odd) {
			for j := range in {
				in[j] = append(in[j], odd[rng.IntN(len(odd))])
			}
		}
		var portable [][]float32
		atLevels(t, func(t *testing.T) {
			a := make([][]float32, k.arrays)
			for j := range a {
				a[j] = slices.Clone(in[j])
			}
			k.run(a)
			if cpu == generic {
				portable = a
				return
			}
			for j := range a {
				for i, x := range a[j] {
					want := portable[j][i]
					if kind(x) != kind(want) || kind(x) == "finite" &&
						math.Abs(float64(x)-float64(want)) > 1e-6*max(1, math.Abs(float64(want))) {
						var v []float32
						for _, in := range in {
							v = append(v, in[i])
						}
						t.Errorf("%s, array %d of %v: %v, portable %v", k.name, j, v, x, want)
					}
				}
			}
		})
	}
}

// TestVectorFunctions checks the exponential and the gate against float64 over all of float32.
func TestVectorFunctions(t *testing.T) {
	var x []float32
	everyFloat(1e15, func(v float32) { x = append(x, v) })
	ones := make([]float32, len(x))
	for i := range ones {
		ones[i] = 1
	}
	atLevels(t, func(t *testing.T) {
		for _, f := range []struct {
			name string
			run  func(y []float32)
			want func(x float64) float64
		}{
			{"ExpShift", func(y []float32) { copy(y, x); ExpShift(y, 0, 1) }, math.Exp},
			{"sigmoid", func(y []float32) { GLU(y, ones, x) }, sigmoid64},
		} {
			y := make([]float32, len(x))
			f.run(y)
			var w worstError
			for i, v := range x {
				want := f.want(float64(v))
				if want > math.MaxFloat32 {
					if y[i] != inf {
						t.Fatalf("%s(%v) = %v, want +Inf", f.name, v, y[i])
					}
					continue
				}
				w.see(v, math.Abs(float64(y[i])-want)/max(1, math.Abs(float64(v)), math.Abs(want)))
			}
			w.check(t, f.name, 5e-7)
		}
	})
}
