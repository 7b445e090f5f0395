package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRadices: the passes for every length make it up, and begin with one that the ends exist for.
func TestRadices(t *testing.T) {
	for l := 1; l < 5000; l += 1 + l/50 {
		n, product := goodLength(l), 1
		r := radices(n)
		for _, radix := range r {
			product *= radix
		}
		if product != n || r[0] != 4 && r[0] != 8 {
			t.Errorf("passes for %d points: %v", n, r)
		}
	}
}

// TestConvStaysInItsArrays: at every level, arrays of any alignment give the same bits, and nothing around them changes.
func TestConvStaysInItsArrays(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 1))
		for _, l := range convLengths() {
			p := NewConvPlan(l)
			x, k := normals(rng, l*Lanes), normals(rng, l*Lanes)
			n := make([]float32, p.N()*Lanes)
			aligned, framedY := make([]float32, 4*l*Lanes), []float32(nil)
			for pass := range 2 {
				offset := func() int { return pass * (1 + rng.IntN(17)) }
				var frames []framed
				frame := func(x []float32) []float32 {
					f := frame(x, offset())
					frames = append(frames, f)
					return f.x()
				}
				u, y := frame(x), frame(aligned)
				are, aim, bre, bim := frame(n), frame(n), frame(n), frame(n)
				sre, sim := frame(n), frame(n)
				p.Transform(are, aim, u, l)
				p.Transform(bre, bim, frame(k), l)
				p.Mul(sre, sim, are, aim, bre, bim)
				p.Inverse(y, sre, sim, l)
				p.Convolve(y[l*Lanes:2*l*Lanes], u, sre, sim, bre, bim, l)
				p.MulConj(sre, sim, are, aim, bre, bim)
				p.Inverse(y[2*l*Lanes:3*l*Lanes], sre, sim, l)
				clear(sre)
				clear(sim)
				p.MulConjAdd(sre, sim, are, aim, bre, bim)
				p.Inverse(y[3*l*Lanes:], sre, sim, l)
				for _, f := range frames {
					f.check(t, "convolution")
				}
				if pass == 0 {
					framedY = slices.Clone(y)
				} else if !slices.Equal(y, framedY) {
					t.Fatalf("l=%d: results depend on where arrays begin", l)
				}
			}
		}
	})
}

// TestLongConv: at every level, passes that are cut into several calls give the same bits as the points of a shorter pass
// would: a kernel that shifts by one moves a sequence of 40,000 points.
func TestLongConv(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		const l = 40000
		rng := rand.New(rand.NewPCG(6, 1))
		p := NewConvPlan(l)
		x, k := normals(rng, l*Lanes), make([]float32, 2*Lanes)
		for v := range Lanes {
			k[Lanes+v] = 1
		}
		y := convolved(p, x, k, l)
		for i := Lanes; i < len(y); i++ {
			if d := y[i] - x[i-Lanes]; d > 1e-5 || d < -1e-5 || d != d {
				t.Fatalf("y[%d] of channel %d is %v, want %v", i/Lanes, i%Lanes, y[i], x[i-Lanes])
			}
		}
	})
}
