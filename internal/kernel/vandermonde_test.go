package kernel

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// directPower is z^l with 0^0 = 1, by polar form in float64.
func directPower(z complex128, l int) complex128 {
	if l == 0 {
		return 1
	}
	if z == 0 {
		return 0
	}
	return cmplx.Pow(z, complex(float64(l), 0))
}

// directVandermonde returns k[l] by definition, and Σ_n |c z^l| that its error is measured by.
func directVandermonde(l int, c, z []complex128, scale float64) (k, size float64) {
	for n := range c {
		x := c[n] * directPower(z[n], l)
		k, size = k+scale*real(x), size+scale*cmplx.Abs(x)
	}
	return k, size
}

// modes returns n modes: c normal, z with modulus in [lo, hi] and any angle.
func modes(rng *rand.Rand, n int, lo, hi float64) (c, z []complex128) {
	for range n {
		c = append(c, complex(rng.NormFloat64(), rng.NormFloat64()))
		z = append(z, cmplx.Rect(lo+(hi-lo)*rng.Float64(), 2*math.Pi*rng.Float64()))
	}
	return c, z
}

func vandermondeLengths() []int {
	ls := []int{0, 63, 64, 65, 1000, 1024, 1025, 4096 + 33}
	for l := 1; l <= 40; l++ {
		ls = append(ls, l)
	}
	return ls
}

func TestVandermondeMatchesDefinition(t *testing.T) { atLevels(t, testVandermondeMatchesDefinition) }

func testVandermondeMatchesDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, radius := range [][2]float64{{0.999, 1}, {1, 1}, {0.5, 0.99}, {1e-3, 0.1}, {0, 0}} {
		for _, l := range append(vandermondeLengths(), 65536) {
			n := 1 + l%7
			scale := float64(1 + l%2)
			c, z := modes(rng, n, radius[0], radius[1])
			k := make([]float32, l)
			work := make([]float32, VandermondeWork(l, n))
			for i := range work {
				work[i] = float32(math.NaN())
			}
			Vandermonde(k, c, z, scale, work)
			for at := 0; at < l; at += 1 + l/2000 {
				want, size := directVandermonde(at, c, z, scale)
				// cmplx.Pow itself loses at·1e-16 of an angle. Below the least normal float32 nothing is promised.
				if math.Abs(float64(k[at])-want) > 5e-7*size+1e-36 {
					t.Fatalf("|z| in %v, l=%d: k[%d] = %v, want %v of %v", radius, l, at, k[at], want, size)
				}
			}
		}
	}
}

// TestVandermondeBackward checks the gradient of Σ_l dk[l]·k[l] against its definition in float64, and that definition
// against central differences.
func TestVandermondeBackward(t *testing.T) { atLevels(t, testVandermondeBackward) }

func testVandermondeBackward(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, radius := range [][2]float64{{0.999, 1}, {0.5, 0.99}, {1e-3, 0.1}, {0, 0}} {
		for _, l := range vandermondeLengths() {
			n := 1 + l%5
			scale := float64(1 + l%2)
			c, z := modes(rng, n, radius[0], radius[1])
			dk := normals(rng, l)
			dc, dz := modes(rng, n, 0, 1) // what is there is added to
			wantC, wantZ := append([]complex128{}, dc...), append([]complex128{}, dz...)
			VandermondeBackward(dc, dz, dk, c, z, scale, make([]float32, VandermondeWork(l, n)))
			for m := range c {
				sizeC, sizeZ := 1.0, 1.0
				for at, d := range dk {
					w := complex(scale*float64(d), 0) * directPower(z[m], at)
					wantC[m] += cmplx.Conj(w)
					sizeC += cmplx.Abs(w)
					if at > 0 {
						w = complex(scale*float64(d)*float64(at), 0) * directPower(z[m], at-1) * c[m]
						wantZ[m] += cmplx.Conj(w)
						sizeZ += cmplx.Abs(w)
					}
				}
				if e := cmplx.Abs(dc[m] - wantC[m]); e > 5e-7*sizeC {
					t.Errorf("|z| in %v, l=%d: dc[%d] = %v, want %v", radius, l, m, dc[m], wantC[m])
				}
				if e := cmplx.Abs(dz[m] - wantZ[m]); e > 5e-7*sizeZ {
					t.Errorf("|z| in %v, l=%d: dz[%d] = %v, want %v", radius, l, m, dz[m], wantZ[m])
				}
			}
		}
	}
}

// TestVandermondeCentralDifferences: gradients follow the stated convention.
func TestVandermondeCentralDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const l, n, scale, h = 70, 3, 2, 1e-6
	c, z := modes(rng, n, 0.9, 1)
	z[2] = 0
	dk := normals(rng, l)
	dc, dz := make([]complex128, n), make([]complex128, n)
	VandermondeBackward(dc, dz, dk, c, z, scale, make([]float32, VandermondeWork(l, n)))
	loss := func() (s float64) {
		for at, d := range dk {
			k, _ := directVandermonde(at, c, z, scale)
			s += float64(d) * k
		}
		return s
	}
	slope := func(x *complex128, step complex128) float64 {
		old := *x
		defer func() { *x = old }()
		*x = old + step
		up := loss()
		*x = old - step
		return (up - loss()) / (2 * h)
	}
	for m := range n {
		for _, g := range []struct {
			name string
			got  complex128
			x    *complex128
		}{{"dc", dc[m], &c[m]}, {"dz", dz[m], &z[m]}} {
			want := complex(slope(g.x, h), slope(g.x, h*1i))
			if cmplx.Abs(g.got-want) > 1e-5*(1+cmplx.Abs(want)) { // the differences' own error is about h²·l³ + 1e-16/h
				t.Errorf("%s[%d] = %v, by differences %v", g.name, m, g.got, want)
			}
		}
	}
}

// TestPowersOfOddities: at every level powers lose what would be denormal, and keep what is no number.
func TestPowersOfOddities(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		f := frame(make([]float32, 4*powerLanes), 3)
		re, im := f.x()[:2*powerLanes], f.x()[2*powerLanes:]
		powers(re, im, 1, complex(1e-3, 0))
		for j, v := range re {
			want := 0.0
			if j < 13 { // 1e-39 is denormal
				want = math.Pow(1e-3, float64(j))
			}
			if math.Abs(float64(v)-want) > 1e-6*want || im[j] != 0 {
				t.Errorf("0.001^%d = %v + %vi, want %v", j, v, im[j], want)
			}
		}
		powers(re, im, 1, complex(math.NaN(), 0))
		for j := range re {
			if isNaN(re[j]) != (j > 0) {
				t.Errorf("NaN^%d = %v", j, re[j])
			}
		}
		powers(re, im, complex(0, math.Inf(1)), 1)
		if !math.IsInf(float64(im[0]), 1) {
			t.Errorf("i·Inf·1 = %v + %vi", re[0], im[0])
		}
		f.check(t, "powers")
	})
}

func BenchmarkVandermonde(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, l := range []int{256, 1024, 16384} {
		const n = 32
		c, z := modes(rng, n, 0.99, 1)
		k, work := make([]float32, l), make([]float32, VandermondeWork(l, n))
		dc, dz := make([]complex128, n), make([]complex128, n)
		b.Run(fmt.Sprintf("forward/l=%d", l), func(b *testing.B) {
			for b.Loop() {
				Vandermonde(k, c, z, 2, work)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*l*n), "ns/mode·step")
		})
		b.Run(fmt.Sprintf("backward/l=%d", l), func(b *testing.B) {
			for b.Loop() {
				VandermondeBackward(dc, dz, k, c, z, 2, work)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*l*n), "ns/mode·step")
		})
	}
}
