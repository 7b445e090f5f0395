package kernel

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"
)

// directPower returns z^l with 0^0 = 1, in polar form in float64.
func directPower(z complex128, l int) complex128 {
	if l == 0 {
		return 1
	}
	if z == 0 {
		return 0
	}
	return cmplx.Pow(z, complex(float64(l), 0))
}

// directVandermonde returns k[l] by definition, and Σ_n |c z^l|, which its error is measured by.
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

// asModes returns x, padded, in the form that the kernels take.
func asModes(x []complex128) Modes {
	n := roundUp(len(x), ModeLanes)
	m := make(Modes, 2*n)
	for i, x := range x {
		m[i], m[n+i] = real(x), imag(x)
	}
	return m
}

// poison fills the scratch of v with NaN, to show that values from the last use are not read.
func poison(v *Vandermonde) {
	fill := func(x []float32) {
		for i := range x {
			x[i] = nan
		}
	}
	for i := range v.parts {
		fill(v.parts[i].buf)
	}
	for _, x := range v.levels {
		fill(x)
	}
	fill(v.odd)
}

func vandermondeLengths() []int {
	ls := []int{63, 64, 65, 512, 513, 1000, 1024, 1025, 4096 + 33, 4800}
	for l := 1; l <= 40; l++ {
		ls = append(ls, l)
	}
	return ls
}

func TestVandermondeMatchesDefinition(t *testing.T) { atLevels(t, testVandermondeMatchesDefinition) }

func testVandermondeMatchesDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var v Vandermonde
	for _, radius := range [][2]float64{{0.999, 1}, {1, 1}, {0.5, 0.99}, {1e-3, 0.1}, {0, 0}} {
		for _, l := range append(vandermondeLengths(), 20000, 65536) {
			n := 1 + l%37
			c, z := modes(rng, n, radius[0], radius[1])
			k := make([]float32, l)
			poison(&v)
			v.Set(asModes(z), l)
			v.Apply(k, asModes(c))
			for at := 0; at < l; at += 1 + l/1000 {
				want, size := directVandermonde(at, c, z, 1)
				// cmplx.Pow itself has an error of at·1e-16 in the angle. Negligible terms may be missing.
				if !(math.Abs(float64(k[at])-want) <= 1e-6*size+float64(n)*4*negligible) {
					t.Fatalf("|z| in %v, l=%d: k[%d] = %v, want %v of %v", radius, l, at, k[at], want, size)
				}
			}
		}
	}
}

// TestVandermondeOfNaN checks that a NaN mode affects all positions but 0, however fast the other modes decay.
func TestVandermondeOfNaN(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		var v Vandermonde
		for _, z := range [][]complex128{{cmplx.NaN(), 0.5}, {0.5, cmplx.NaN()}, {0.5, cmplx.NaN(), 0.1}} {
			k := make([]float32, 3000)
			v.Set(asModes(z), len(k))
			v.Apply(k, asModes([]complex128{1, 1, 1}))
			for l, x := range k {
				if isNaN(x) != (l > 0) {
					t.Fatalf("modes %v: k[%d] = %v", z, l, x)
				}
			}
		}
	})
}

// TestVandermondeSums checks the sums against their definition in float64.
func TestVandermondeSums(t *testing.T) { atLevels(t, testVandermondeSums) }

func testVandermondeSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	var v Vandermonde
	for _, radius := range [][2]float64{{0.999, 1}, {0.5, 0.99}, {1e-3, 0.1}, {0, 0}} {
		for _, l := range vandermondeLengths() {
			n := 1 + l%33
			_, z := modes(rng, n, radius[0], radius[1])
			dk := normals(rng, l)
			poison(&v)
			v.Set(asModes(z), l)
			s, ds, alone := asModes(z), asModes(z), asModes(z)
			v.Sums(s, ds, dk)
			v.Sums(alone, nil, dk)
			if !slices.Equal(s, alone) {
				t.Errorf("|z| in %v, l=%d: the sums differ without those for the derivative", radius, l)
			}
			for m := range n {
				var want, wantD complex128
				size, sizeD := 1.0, 1.0
				power, before := complex(1, 0), complex(0, 0)
				for at, d := range dk {
					w, e := complex(float64(d), 0)*power, complex(float64(d)*float64(at), 0)*before
					want, wantD = want+w, wantD+e
					size, sizeD = size+cmplx.Abs(w), sizeD+cmplx.Abs(e)
					before, power = power, power*z[m]
				}
				if e := cmplx.Abs(s.at(m) - want); !(e <= 5e-7*size) {
					t.Errorf("|z| in %v, l=%d: s[%d] = %v, want %v", radius, l, m, s.at(m), want)
				}
				if e := cmplx.Abs(ds.at(m) - wantD); !(e <= 5e-7*sizeD) {
					t.Errorf("|z| in %v, l=%d: ds[%d] = %v, want %v", radius, l, m, ds.at(m), wantD)
				}
			}
		}
	}
}

// TestVandermondeCentralDifferences checks that gradients follow the documented convention.
func TestVandermondeCentralDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const l, n, h = 70, 3, 1e-6
	c, z := modes(rng, n, 0.9, 1)
	z[2] = 0
	dk := normals(rng, l)
	s, ds := asModes(z), asModes(z)
	var v Vandermonde
	v.Set(asModes(z), l)
	v.Sums(s, ds, dk)
	loss := func() (s float64) {
		for at, d := range dk {
			k, _ := directVandermonde(at, c, z, 1)
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
		}{{"dc", cmplx.Conj(s.at(m)), &c[m]}, {"dz", cmplx.Conj(c[m] * ds.at(m)), &z[m]}} {
			want := complex(slope(g.x, h), slope(g.x, h*1i))
			// the differences' own error is about h²·l³ + 1e-16/h
			if !(cmplx.Abs(g.got-want) <= 1e-5*(1+cmplx.Abs(want))) {
				t.Errorf("%s[%d] = %v, by differences %v", g.name, m, g.got, want)
			}
		}
	}
}

// TestPowersOfOddities checks, at every level, that powers that would cause denormals become 0, and that NaN stays NaN.
func TestPowersOfOddities(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		const rows = 24
		v := powerMatrix{n: ModeLanes}
		f := frame(make([]float32, rows*2*ModeLanes), 3)
		v.powers(f.x(), rows, asModes([]complex128{1e-3, complex(math.NaN(), 0), complex(0, math.Inf(1))}),
			nil, make(Modes, 2*ModeLanes))
		f.check(t, "powers")
		for j := range rows {
			row := f.x()[2*ModeLanes*j:]
			want := math.Pow(1e-3, float64(j))
			if 4*(j/4) > 10 || cpu == generic && j > 10 { // 1e-30 is about 2^-100
				want = 0
			}
			if math.Abs(float64(row[0])-want) > 1e-6*want || row[ModeLanes] != 0 {
				t.Errorf("0.001^%d = %v + %vi, want %v", j, row[0], row[ModeLanes], want)
			}
			if isNaN(row[1]) != (j > 0) {
				t.Errorf("NaN^%d = %v", j, row[1])
			}
		}
		if x := f.x()[2*ModeLanes+ModeLanes+2]; !math.IsInf(float64(x), 1) && !isNaN(x) {
			t.Errorf("the imaginary part of i·Inf is %v", x)
		}
		for m := 3; m < ModeLanes; m++ {
			if f.x()[m] != 1 || f.x()[2*ModeLanes+m] != 0 {
				t.Errorf("0^0, 0^1 = %v, %v", f.x()[m], f.x()[2*ModeLanes+m])
			}
		}
	})
}

// TestTranspose checks every small shape, and that nothing else is written.
func TestTranspose(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 1))
		for rows := 1; rows < 20; rows++ {
			for cols := range 35 {
				ldx, ldy := cols+rng.IntN(3), rows+rng.IntN(3)
				x := normals(rng, rows*ldx)
				y := frame(make([]float32, max(0, cols-1)*ldy+rows), rng.IntN(9))
				for i := range y.x() {
					y.x()[i] = -1
				}
				backX, backY := rng.IntN(2) == 1, rng.IntN(2) == 1
				sign := map[bool]int{false: 1, true: -1}
				Transpose(rows, cols, y.x(), sign[backY]*ldy, x[:(rows-1)*ldx+cols], sign[backX]*ldx)
				y.check(t, "Transpose")
				for at, v := range y.x() {
					i, j, want := at%ldy, at/ldy, float32(-1)
					if backY {
						j = cols - 1 - j
					}
					if i < rows && cols > 0 {
						if backX {
							i = rows - 1 - i
						}
						want = x[i*ldx+j]
					}
					if v != want {
						t.Fatalf("%dx%d: y[%d] = %v, want %v", rows, cols, at, v, want)
					}
				}
			}
		}
	})
}

func BenchmarkVandermonde(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, l := range []int{256, 1024, 8192} {
		const n = 32
		c, z := modes(rng, n, 1, 1)
		k, s, ds := make([]float32, l), asModes(z), asModes(z)
		cm, zm := asModes(c), asModes(z)
		var v Vandermonde
		for _, f := range []struct {
			name string
			run  func()
		}{
			{"set", func() { v.Set(zm, l) }},
			{"apply", func() { v.Apply(k, cm) }},
			{"sums", func() { v.Sums(s, ds, k) }},
		} {
			b.Run(fmt.Sprintf("%s/l=%d", f.name, l), func(b *testing.B) {
				v.Set(zm, l)
				for b.Loop() {
					f.run()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*l*n), "ns/mode·step")
			})
		}
	}
}
