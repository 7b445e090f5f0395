//go:build gpu

package gpu

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
)

// TestPowerSums checks that sums of powers and their gradients are those in float64, with several workgroups of
// positions and of modes. Gradients must be added to existing ones. A position must have the same bits for any length.
func TestPowerSums(t *testing.T) {
	const h, n, longest = 3, 9, 2500
	c, rng := device.core, rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	a := make([]float32, 2*h*n)
	for i := range h * n { // with some radii, powers last for 2,500 positions
		x := cmplx.Rect(1-0.3*math.Pow(0.5, float64(i%12)), 3*rng.Float64())
		a[2*i], a[2*i+1] = float32(real(x)), float32(imag(x))
	}
	w := random(2 * h * n)
	pairs := func(b engine.Buffer) (v [2]engine.View) {
		for i := range v {
			v[i] = engine.View{Of: b, At: i, Shape: []int{h, n}, Stride: []int{2 * n, 2}}
		}
		return v
	}
	in, weights := put(a), put(w)
	var before []float32
	for _, l := range []int{1, 33, 1024, longest} {
		dy, there := random(l*h), random(2*h*n)
		y, da, dw := c.New(l*h), put(there), put(there)
		view := engine.View{Of: y, Shape: []int{l, h}, Stride: []int{h, 1}}
		c.PowerSums(view, pairs(in), pairs(weights))
		view.Of = put(dy)
		c.AddPowerSums(view, pairs(in), pairs(weights), pairs(da), pairs(dw))
		wantY, wantA, wantW := make([]float64, l*h), wide(there), wide(there)
		for i := range h * n {
			x, k := complex(float64(a[2*i]), float64(a[2*i+1])), complex(float64(w[2*i]), float64(w[2*i+1]))
			p, less := complex(1, 0), complex(0, 0) // x^j, and x^(j-1)
			for j := range l {
				at := j*h + i/n
				wantY[at] += real(k * p)
				byW, byA := complex(float64(dy[at]), 0)*p, complex(float64(dy[at])*float64(j), 0)*k*less
				wantW[2*i], wantW[2*i+1] = wantW[2*i]+real(byW), wantW[2*i+1]-imag(byW)
				wantA[2*i], wantA[2*i+1] = wantA[2*i]+real(byA), wantA[2*i+1]-imag(byA)
				p, less = p*x, p
			}
		}
		got := get(y)
		near(t, "y", got, narrow(wantY), 1e-4) // angles grow with the position
		near(t, "da", get(da), narrow(wantA), 1e-4)
		near(t, "dw", get(dw), narrow(wantW), 1e-4)
		if !slices.Equal(got[:len(before)], before) {
			t.Errorf("of length %d: the first positions have other bits", l)
		}
		before = got
	}
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// TestTurn checks that angles of many turns are accurate up to a rounding of π.
func TestTurn(t *testing.T) {
	const n = 500
	x, u, v := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range n {
		x[i] = float32(math.Pow(1.05, float64(i%200))) * float32(1-i%3)
		u[i], v[i] = float32(0.01*float64(i)-6), float32(math.Sin(float64(i)))
	}
	y := device.core.New(n)
	for _, scale := range []float64{1, 1 << 14} {
		for _, all := range [][3]engine.View{{flat(put(x), n), flat(put(u), n), flat(put(v), n)},
			{{Stride: []int{0}}, flat(put(u), n), {Stride: []int{0}}}} {
			device.core.Turn(flat(y, n), all[0], all[1], all[2], scale)
			for i, got := range get(y) {
				angle := scale * math.Exp(float64(u[i]))
				if all[0].Of != nil {
					angle *= float64(x[i]) * math.Exp(float64(v[i]))
				}
				want := math.Remainder(angle, 2*math.Pi)
				if e := math.Remainder(float64(got)-want, 2*math.Pi); !(math.Abs(e) <= 5e-7+1e-13*math.Abs(angle)) {
					t.Fatalf("of %g radians: %g, want %g", angle, got, want)
				}
			}
		}
	}
}
