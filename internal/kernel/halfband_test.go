package kernel

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// TestHalfband checks upsample and downsample against their definitions, for all small lengths, and that nothing else
// is written.
func TestHalfband(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(6, 1))
		for l := 1; l < 150; l++ {
			n := positions(l, 1)
			x, dy := normals(rng, n), normals(rng, l)
			y, dx := frame(make([]float32, l), l%7), frame(make([]float32, n), l%5)
			upsample(y.x(), x)
			y.check(t, "upsample")
			odd := make([]float32, l/2+2*halfbandTaps)
			for i := range odd {
				odd[i] = nan
			}
			downsample(dx.x(), dy, odd)
			dx.check(t, "downsample")
			want := make([]float64, n)
			for i := range l {
				var sum float64
				tap := func(at int, f float64) {
					sum += f * float64(x[at])
					want[at] += f * float64(dy[i])
				}
				if i%2 == 0 {
					tap(i/2+8, 1)
				} else {
					for p, f := range halfband {
						tap(i/2+8-p, float64(f))
						tap(i/2+9+p, float64(f))
					}
				}
				if math.Abs(float64(y.x()[i])-sum) > 2e-6 {
					t.Fatalf("l=%d: y[%d] = %v, want %v", l, i, y.x()[i], sum)
				}
			}
			for i, w := range want {
				if !(math.Abs(float64(dx.x()[i])-w) <= 2e-6) {
					t.Fatalf("l=%d: dx[%d] = %v, want %v", l, i, dx.x()[i], w)
				}
			}
		}
	})
}

// TestHalfbandOfNaN checks that NaN and infinities affect all results in which their weight is not 0.
func TestHalfbandOfNaN(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, bad := range []float32{nan, float32(math.Inf(1))} {
			const l = 90
			x := make([]float32, positions(l, 1))
			x[30] = bad
			y := make([]float32, l)
			upsample(y, x)
			for i, v := range y {
				if want := i == 2*22 || i%2 == 1 && i/2 >= 30-16 && i/2 <= 30-1; isNaN(v-v) != want {
					t.Errorf("%v: y[%d] = %v", bad, i, v)
				}
			}
		}
	})
}

// TestHalfbandIsExact checks that the filter gives modes at odd positions, up to the limit of its use, with an error of
// 1e-7.
func TestHalfbandIsExact(t *testing.T) {
	for i := range 200 {
		for _, decay := range []float64{-halfbandDecay, 0, halfbandDecay / 2, halfbandDecay} {
			lambda := complex(decay, halfbandTurn*float64(i)/199)
			e := complex(-1, 0)
			for p, f := range halfband {
				e += complex(2*float64(f), 0) * cmplx.Cosh(complex(float64(p)+0.5, 0)*lambda)
			}
			if !(cmplx.Abs(e) <= 1e-7) {
				t.Errorf("2λ = %v: off by %v", lambda, cmplx.Abs(e))
			}
		}
	}
}

// TestModesArithmetic checks the operations on modes against complex128.
func TestModesArithmetic(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 1))
		for n := ModeLanes; n <= 3*ModeLanes; n += ModeLanes {
			x, y, m := make(Modes, 2*n), make(Modes, 2*n), make(Modes, 2*n)
			for i := range x {
				x[i], y[i], m[i] = rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()
			}
			x.set(3, 0)
			y.set(5, complex(math.NaN(), 1))
			const a = 1.5
			product, conj, sum := make(Modes, 2*n), make(Modes, 2*n), append(Modes{}, m...)
			product.Mul(a, x, y)
			conj.MulConj(a, x, y)
			sum.AddConjMul(a, x, y)
			x.conj(x)
			for i := range n {
				x := cmplx.Conj(x.at(i))
				size := 2 * cmplx.Abs(x*y.at(i))
				for _, c := range []struct {
					what      string
					got, want complex128
					size      float64
				}{
					{"a·x·y", product.at(i), a * x * y.at(i), size},
					{"a·x·conj(y)", conj.at(i), a * x * cmplx.Conj(y.at(i)), size},
					{"m + a·conj(x·y)", sum.at(i), m.at(i) + a*cmplx.Conj(x*y.at(i)), size + cmplx.Abs(m.at(i))},
				} {
					if !near(c.got, c.want, c.size) {
						t.Errorf("%s = %v, want %v", c.what, c.got, c.want)
					}
				}
			}
		}
	})
}

// TestSlowModes checks slowModes against powers in polar form.
func TestSlowModes(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(8, 1))
		for h := 1; h <= halvingsMost; h++ {
			_, z := slowGroups(rng, []float64{1, 1}, []float64{0.1, 0.1})
			z[3] = 0
			x := asModes(z)
			stepped, inverse, start := make(Modes, len(x)), make(Modes, len(x)), make(Modes, len(x))
			slowModes(stepped, inverse, start, x, h)
			for i, z := range z {
				want := []complex128{0, 0, 0}
				if z != 0 {
					m := float64(int(1) << h)
					want = []complex128{cmplx.Pow(z, complex(m, 0)), 1 / z,
						cmplx.Pow(z, complex(-m*float64(before(h)), 0))}
				}
				for j, got := range []complex128{stepped.at(i), inverse.at(i), start.at(i)} {
					if !(cmplx.Abs(got-want[j]) <= 1e-12*cmplx.Abs(want[j])) {
						t.Errorf("%d halvings of %v: %v, want %v", h, z, got, want[j])
					}
				}
			}
		}
	})
}
