package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// lengths are all tails of all vectors, and some longer slices.
func lengths() []int {
	var n []int
	for i := range 68 {
		n = append(n, i)
	}
	return append(n, 127, 128, 255, 1000, callLength+5)
}

// framed are n floats in the midst of NaN, from an odd offset on.
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

// pointwise are the kernels that treat every element alone: run gets its arrays, of which the first ones are written; want
// is what the first gets for one element of each.
var pointwise = []struct {
	name   string
	arrays int
	run    func(a [][]float32)
	want   func(v []float64) []float64 // of as many arrays as are written
}{
	{"Add", 2, func(a [][]float32) { Add(a[0], a[1]) }, func(v []float64) []float64 { return []float64{v[0] + v[1]} }},
	{"Mul", 2, func(a [][]float32) { Mul(a[0], a[1]) }, func(v []float64) []float64 { return []float64{v[0] * v[1]} }},
	{"MulInto", 3, func(a [][]float32) { MulInto(a[0], a[1], a[2]) }, func(v []float64) []float64 { return []float64{v[1] * v[2]} }},
	{"MulAdd", 3, func(a [][]float32) { MulAdd(a[0], a[1], a[2]) }, func(v []float64) []float64 { return []float64{v[0] + v[1]*v[2]} }},
	{"Scale", 1, func(a [][]float32) { Scale(a[0], -1.7) }, func(v []float64) []float64 { return []float64{v[0] * float64(float32(-1.7))} }},
	{"Axpy", 2, func(a [][]float32) { Axpy(0.3, a[1], a[0]) }, func(v []float64) []float64 { return []float64{v[0] + float64(float32(0.3))*v[1]} }},
	{"ExpShift", 1, func(a [][]float32) { ExpShift(a[0], 0.5, 2) }, func(v []float64) []float64 { return []float64{2 * math.Exp(v[0]-0.5)} }},
	{"SoftmaxAgain", 1, func(a [][]float32) { SoftmaxAgain(a[0], 0.5, 0.7) },
		func(v []float64) []float64 { return []float64{math.Exp(0.5*v[0] - float64(float32(0.7)))} }},
	{"SoftmaxGrad", 2, func(a [][]float32) { SoftmaxGrad(a[0], a[1], 0.25, 0.5) },
		func(v []float64) []float64 { return []float64{v[1] * (v[0] - 0.25) * 0.5} }},
	{"GLU", 3, func(a [][]float32) { GLU(a[0], a[1], a[2]) }, func(v []float64) []float64 { return []float64{v[1] * sigmoid64(v[2])} }},
	{"GLUGrad", 5, func(a [][]float32) { GLUGrad(a[0], a[1], a[2], a[3], a[4]) }, func(v []float64) []float64 {
		s := sigmoid64(v[4])
		return []float64{v[0] + v[2]*s, v[1] + v[2]*v[3]*s*(1-s)}
	}},
	{"GeluInto", 2, func(a [][]float32) { GeluInto(a[0], a[1]) }, func(v []float64) []float64 { return []float64{v[1] * sigmoid64(2*geluArg64(v[1]))} }},
	{"GeluGradAdd", 3, func(a [][]float32) { GeluGradAdd(a[0], a[1], a[2]) }, func(v []float64) []float64 {
		s := sigmoid64(2 * geluArg64(v[2]))
		return []float64{v[0] + v[1]*(s+v[2]*s*(1-s)*2*geluA*(1+3*geluB*v[2]*v[2]))}
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
}

var adamWTest = AdamWStep{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-6, Decay: 0.1, GradScale: 0.5, Correct1: 0.3, Correct2: 0.2}

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
func geluArg64(x float64) float64 { return geluA * (x + geluB*x*x*x) }

// TestPointwise: at every level, for every tail and from odd offsets, the result is the definition's, stays within its
// slice, and is for each element what it is for that element alone.
func TestPointwise(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(11, 11))
		const tol = 5e-7 // a few roundings of 6e-8 of products of up to three inputs
		for _, k := range pointwise {
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

// TestPointwiseOfOddities: NaN, infinities, zeros and denormals give what the portable code gives: the
// same kind of number, and the same up to rounding.
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
					if kind(x) != kind(want) || kind(x) == "finite" && math.Abs(float64(x)-float64(want)) > 1e-6*max(1, math.Abs(float64(want))) {
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

// TestVectorFunctions compares those with an exponential with float64 over all of float32.
func TestVectorFunctions(t *testing.T) {
	var x []float32
	everyFloat(1e15, func(v float32) { x = append(x, v) })
	zeros, ones := make([]float32, len(x)), make([]float32, len(x))
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
			{"GeluInto", func(y []float32) { GeluInto(y, x) }, func(x float64) float64 { return x * sigmoid64(2*geluArg64(x)) }},
			{"GeluGradAdd", func(y []float32) { copy(y, zeros); GeluGradAdd(y, ones, x) }, func(x float64) float64 {
				th := math.Tanh(geluArg64(x))
				return 0.5*(1+th) + 0.5*x*(1-th*th)*geluA*(1+3*geluB*x*x)
			}},
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

// TestVectorSums: sums and maxima over every tail and from odd offsets, beside NaN that are not theirs.
func TestVectorSums(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(13, 13))
		for _, n := range lengths() {
			xg, yg := frame(normals(rng, n), rng.IntN(20)), frame(normals(rng, n), rng.IntN(20))
			x, y := xg.x(), yg.x()
			near := func(what string, got, want, size float64) {
				t.Helper()
				if e := math.Abs(got - want); !(e <= 3e-7*size) {
					t.Errorf("%s of %d: %v, want %v", what, n, got, want)
				}
			}
			var dot, size, squares float64
			for i, v := range x {
				dot, size = dot+float64(v)*float64(y[i]), size+math.Abs(float64(v)*float64(y[i]))
				squares += float64(v) * float64(v)
			}
			near("Dot", float64(Dot(x, y)), dot, size)
			near("SumSquares", SumSquares(x), squares, 1e-6*squares) // it is a sum in float64
			if !AllFinite(x) {
				t.Errorf("AllFinite of %d is wrong", n)
			}
			if n == 0 {
				continue
			}
			near("LogSumExp", float64(LogSumExp(x)), logSumExp64(x), max(1, math.Abs(logSumExp64(x))))
			const scale = 0.125
			p, scaled := frame(x, rng.IntN(20)), slices.Clone(x)
			for i := range scaled {
				scaled[i] *= scale
			}
			want := logSumExp64(scaled)
			near("lse of Softmax", float64(Softmax(p.x(), scale)), want, max(1, math.Abs(want)))
			for i, v := range p.x() {
				near("Softmax", float64(v), math.Exp(float64(scaled[i])-want), 1)
			}
			p.check(t, "Softmax")
			at := rng.IntN(n)
			for _, bad := range []float32{inf, -inf, nan} {
				old := x[at]
				x[at] = bad
				if AllFinite(x) {
					t.Errorf("%v at %d of %d is overlooked", bad, at, n)
				}
				if got := LogSumExp(x); (bad != -inf || n == 1) && !isNaN(got) {
					t.Errorf("LogSumExp with %v at %d of %d: %v, want NaN as the portable code has it", bad, at, n, got)
				}
				x[at] = old
			}
			y[at] = 1e4 // the largest
			if got := LogSumExp(y); got != 1e4 {
				t.Errorf("LogSumExp with 1e4 at %d of %d: %v", at, n, got)
			}
		}
	})
}

// TestVectorNorm: LayerNorm and its gradients for every width.
func TestVectorNorm(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(14, 14))
		for _, d := range lengths() {
			if d == 0 {
				continue
			}
			rows := 1 + rng.IntN(5)
			array := func(n int) framed { return frame(normals(rng, n), rng.IntN(20)) }
			x, w, b, dy := array(rows*d), array(d), array(d), array(rows*d)
			y, mean, rstd, dx, dw, db := array(rows*d), array(rows), array(rows), array(rows*d), array(d), array(d)
			wantX, wantW, wantB := wide(dx.x()), wide(dw.x()), wide(db.x())
			LayerNorm(y.x(), mean.x(), rstd.x(), x.x(), w.x(), b.x(), d, normEps)
			LayerNormGrad(dx.x(), dy.x(), x.x(), w.x(), mean.x(), rstd.x(), d)
			LayerNormParamGrad(dw.x(), db.x(), dy.x(), x.x(), mean.x(), rstd.x(), d)
			var wantY []float64
			for r := range rows {
				hat, s := normalized(x.x()[r*d:][:d])
				var g, gx float64
				for i, h := range hat {
					v := float64(dy.x()[r*d+i])
					wantY = append(wantY, h*float64(w.x()[i])+float64(b.x()[i]))
					g += v * float64(w.x()[i]) / float64(d)
					gx += v * float64(w.x()[i]) * h / float64(d)
					wantW[i] += v * h
					wantB[i] += v
				}
				for i, h := range hat {
					wantX[r*d+i] += s * (float64(dy.x()[r*d+i])*float64(w.x()[i]) - g - h*gx)
				}
			}
			name := fmt.Sprintf("d = %d: ", d)
			within(t, name+"y", y.x(), wantY, 1e-6)
			within(t, name+"dx", dx.x(), wantX, 1e-6)
			within(t, name+"dw", dw.x(), wantW, 1e-6)
			within(t, name+"db", db.x(), wantB, 1e-6)
			for _, g := range []framed{x, w, b, dy, y, mean, rstd, dx, dw, db} {
				g.check(t, name)
			}
		}
	})
}

// TestVectorFilter: the filters for channels, rows and taps beside and beyond a tile, cut anywhere.
func TestVectorFilter(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(15, 15))
		for range 120 {
			d, l := 1+rng.IntN(70), 1+rng.IntN(90)
			m := 1 + rng.IntN(min(l, 40))
			array := func(n int) framed { return frame(normals(rng, n), rng.IntN(20)) }
			x, dy, taps, skip := array(l*d), array(l*d), array(m*d), array(d)
			y, dx, dtaps := array(l*d), array(l*d), array(m*d)
			wantY, wantX, wantTaps := make([]float64, l*d), wide(dx.x()), wide(dtaps.x())
			for r := range l {
				for c := range d {
					wantY[r*d+c] += float64(skip.x()[c]) * float64(x.x()[r*d+c])
					wantX[r*d+c] += float64(skip.x()[c]) * float64(dy.x()[r*d+c])
					for i := range min(m, r+1) {
						h, in, g := float64(taps.x()[i*d+c]), float64(x.x()[(r-i)*d+c]), float64(dy.x()[r*d+c])
						wantY[r*d+c] += h * in
						wantX[(r-i)*d+c] += h * g
						wantTaps[i*d+c] += g * in
					}
				}
			}
			for cut, cuts := 0, []int{rng.IntN(l + 1), l}; len(cuts) > 0; cut, cuts = cuts[0], cuts[1:] {
				FIR(y.x(), x.x(), taps.x(), skip.x(), d, m, cut, cuts[0])
				FIRGrad(dx.x(), dy.x(), taps.x(), skip.x(), d, m, l, cut, cuts[0])
			}
			for cut, cuts := 0, []int{rng.IntN(m + 1), m}; len(cuts) > 0; cut, cuts = cuts[0], cuts[1:] {
				FIRTapsGrad(dtaps.x(), dy.x(), x.x(), d, l, cut, cuts[0])
			}
			name := fmt.Sprintf("d %d, l %d, m %d: ", d, l, m)
			within(t, name+"FIR", y.x(), wantY, 1e-6)
			within(t, name+"FIRGrad", dx.x(), wantX, 1e-6)
			within(t, name+"FIRTapsGrad", dtaps.x(), wantTaps, 1e-6)
			for _, g := range []framed{x, dy, taps, skip, y, dx, dtaps} {
				g.check(t, name)
			}
			whole := make([]float32, l*d)
			FIR(whole, x.x(), taps.x(), skip.x(), d, m, 0, l)
			if !slices.Equal(whole, y.x()) {
				t.Errorf("%s: FIR in pieces differs", name)
			}
		}
	})
}

// TestVectorDiagStep: every number of modes.
func TestVectorDiagStep(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(16, 16))
		for n := range 40 {
			array := func() framed { return frame(normals(rng, 2*n), rng.IntN(20)) }
			x, a, b, c := array(), array(), array(), array()
			const u = 0.7
			var y float64
			var want []float64
			for i := range n {
				at := func(g framed) complex128 { return complex(float64(g.x()[2*i]), float64(g.x()[2*i+1])) }
				z := at(a)*at(x) + at(b)*complex(float64(float32(u)), 0)
				y += 2 * real(at(c)*z)
				want = append(want, real(z), imag(z))
			}
			got := DiagStep(x.x(), a.x(), b.x(), c.x(), u)
			within(t, fmt.Sprintf("y of %d modes", n), []float32{got}, []float64{y}, 1e-5) // of up to 80 products around 1
			within(t, fmt.Sprintf("state of %d modes", n), x.x(), want, 1e-6)
			for _, g := range []framed{x, a, b, c} {
				g.check(t, "DiagStep")
			}
		}
	})
}

// TestVectorDropout: the mask is Keep's at every level, for any first element.
func TestVectorDropout(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(19, 19))
		for _, n := range lengths() {
			seed, first, threshold := rng.Uint64(), rng.IntN(1<<20), rng.Uint32()
			x := frame(normals(rng, n), rng.IntN(20))
			y := frame(normals(rng, n), rng.IntN(20))
			in, old := slices.Clone(x.x()), slices.Clone(y.x())
			DropAdd(y.x(), x.x(), seed, first, threshold, 1.5)
			Drop(x.x(), seed, first, threshold, 1.5)
			for i, v := range in {
				want := float32(0)
				if Keep(seed, first+i, threshold) {
					want = v * 1.5
				}
				if x.x()[i] != want || y.x()[i] != old[i]+want {
					t.Fatalf("element %d of %d: %v, added %v", i, n, x.x()[i], y.x()[i])
				}
			}
			x.check(t, "Drop")
			y.check(t, "DropAdd")
		}
		for _, threshold := range []uint32{0, 1, math.MaxUint32} { // bounds are the same to the bit
			const seed = 7
			x := make([]float32, 1000)
			for i := range x {
				x[i] = 1
			}
			Drop(x, seed, 0, threshold, 1)
			for i, v := range x {
				if (v == 1) != Keep(seed, i, threshold) {
					t.Fatalf("threshold %d, element %d: %v", threshold, i, v)
				}
			}
		}
		three := uint64(3)
		threshold := uint32(Mix64(7+three*keepStep) >> 32) // that of element 3 itself, which is kept
		x := []float32{1, 1, 1, 1}
		if Drop(x, 7, 0, threshold, 1); x[3] != 1 {
			t.Error("an element at the threshold is dropped")
		}
		if Drop(x, 7, 0, threshold+1, 1); x[3] != 0 {
			t.Error("an element below the threshold is kept")
		}
	})
}
