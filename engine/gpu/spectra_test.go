//go:build gpu

package gpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
)

// TestSpectra checks that convolutions of columns by spectra, with filters and with one another reversed, are the sums
// in float64. It covers odd and even lengths, each last radix, and transforms that are split in two.
func TestSpectra(t *testing.T) {
	c := device.core
	defer func(points int) { c.points = points }(c.points)
	for _, test := range []struct {
		l, taps    int // results, and taps
		b, h, q, n int // n positions in
		points     int // largest single transform
	}{
		{37, 37, 2, 3, 1, 37, 4096}, {100, 100, 1, 2, 2, 100, 4096}, {130, 130, 2, 2, 3, 130, 4096},
		{130, 130, 2, 2, 3, 130, 64}, {33, 300, 1, 3, 1, 332, 4096}, {300, 33, 1, 2, 1, 300, 64},
		{3000, 3000, 1, 1, 2, 3000, 4096}, {33, 33, 2, 200, 1, 33, 4096},
	} {
		c.points = test.points
		l, taps, b, h, q, n := test.l, test.taps, test.b, test.h, test.q, test.n
		rng := rand.New(rand.NewPCG(uint64(l), uint64(taps)))
		random := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			return x
		}
		x, k, dy := random(b*n*h*q), random(taps*h), random(b*l*h*q)
		view := func(of engine.Buffer, b, l, q int) engine.View {
			return engine.View{Of: of, Shape: []int{b, l, h, q}, Stride: []int{l * h * q, h * q, q, 1}}
		}
		points := c.Points(l, taps)
		if points == 0 {
			t.Fatalf("%v has no spectra", test)
		}
		y, dx, dk := c.New(b*l*h*q), c.New(b*n*h*q), c.New(taps*h)
		in, out := put(x), put(dy)
		filters := c.Spectrum(view(put(k), 1, taps, 1), 0, points)
		c.Filter(view(y, b, l, q), view(in, b, n, q), filters, n-l, points)
		dz, z := c.Spectrum(view(out, b, l, q), n-l, points), c.Spectrum(view(in, b, n, q), 0, points)
		shape := []int{b, n, h, q}
		c.Inverse(view(dx, b, n, q), c.Products(dz, filters, shape, points, true), 0, points)
		c.Inverse(view(dk, 1, taps, 1), c.SumOfProducts(dz, z, shape, points), 0, points)
		wantY, wantX, wantK := make([]float64, len(dy)), make([]float64, len(x)), make([]float64, len(k))
		for i := range b {
			for at := range l {
				for head := range h {
					for j := range taps {
						s := at + n - l - j
						if s < 0 {
							break
						}
						for p := range q {
							from, to := ((i*n+s)*h+head)*q+p, ((i*l+at)*h+head)*q+p
							wantY[to] += float64(k[j*h+head]) * float64(x[from])
							wantX[from] += float64(k[j*h+head]) * float64(dy[to])
							wantK[j*h+head] += float64(x[from]) * float64(dy[to])
						}
					}
				}
			}
		}
		for name, both := range map[string]struct {
			got  engine.Buffer
			want []float64
		}{"results": {y, wantY}, "gradients": {dx, wantX}, "gradients of taps": {dk, wantK}} {
			got := get(both.got)
			near(t, name, got, narrow(both.want), 1e-6)
			if name != "results" {
				continue
			}
			again := c.New(len(got))
			c.Filter(view(again, b, l, q), view(in, b, n, q), filters, n-l, points)
			if !slices.Equal(get(again), got) {
				t.Errorf("%v: other bits in another run", test)
			}
		}
	}
}
