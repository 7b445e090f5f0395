package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/internal/counter"
)

// TestVectorSums checks sums and maxima for every tail and from odd offsets, next to NaN outside the slice.
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

// TestVectorNorm checks LayerNorm and its gradients for every width.
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

// TestVectorFilter checks the filters for channels, rows and taps below and above the size of a tile, split anywhere.
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

// TestVectorDiagSteps checks every number of modes, for some channels of some systems.
func TestVectorDiagSteps(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(16, 16))
		for n := range 40 {
			systems, per := 1+rng.IntN(4), 1+rng.IntN(3)
			array := func(n int) framed { return frame(normals(rng, n), rng.IntN(20)) }
			x, a, b, c := array(2*n*systems*per), array(2*n*systems), array(2*n*systems), array(2*n*systems)
			u, z, skip := array(systems*per), array(systems*per), array(systems)
			at := func(g framed, i int) complex128 { return complex(float64(g.x()[2*i]), float64(g.x()[2*i+1])) }
			var want, state []float64
			for ch, u := range u.x() {
				s := ch / per
				y := float64(u) * float64(skip.x()[s])
				for i := range n {
					z := at(a, s*n+i)*at(x, ch*n+i) + at(b, s*n+i)*complex(float64(u), 0)
					y += 2 * real(at(c, s*n+i)*z)
					state = append(state, real(z), imag(z))
				}
				want = append(want, y)
			}
			r := DiagRecurrence{Systems: systems, Per: per, N: n, A: a.x(), B: b.x(), C: c.x(), Skip: skip.x()}
			r.Step(z.x(), u.x(), x.x())
			within(t, fmt.Sprintf("outputs of %d modes", n), z.x(), want, 1e-5) // of up to 80 products around 1
			within(t, fmt.Sprintf("states of %d modes", n), x.x(), state, 1e-6)
			for _, g := range []framed{x, a, b, c, u, z, skip} {
				g.check(t, "DiagRecurrence.Step")
			}
		}
	})
}

// TestVectorDropout checks that the mask is Keep's at every level, for any first element.
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
				if counter.Keep(seed, first+i, threshold) {
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
				if (v == 1) != counter.Keep(seed, i, threshold) {
					t.Fatalf("threshold %d, element %d: %v", threshold, i, v)
				}
			}
		}
		three := uint64(3)
		threshold := uint32(counter.Mix64(7+three*counter.Step) >> 32) // that of element 3 itself, which is kept
		x := []float32{1, 1, 1, 1}
		if Drop(x, 7, 0, threshold, 1); x[3] != 1 {
			t.Error("an element at the threshold is dropped")
		}
		if Drop(x, 7, 0, threshold+1, 1); x[3] != 0 {
			t.Error("an element below the threshold is kept")
		}
	})
}
