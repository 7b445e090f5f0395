package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRadices checks that the radices of every length multiply to it and begin with a radix that the ends support.
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

// TestConvStaysInItsArrays checks, at every level, that arrays of any alignment give the same bits, and that nothing
// around them changes.
func TestConvStaysInItsArrays(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 1))
		for _, l := range convLengths() {
			p := NewConvPlan(l)
			x, k, dy := normals(rng, l*Lanes), normals(rng, l*Lanes), normals(rng, l*Lanes)
			wide := make([]float32, (l-1)*(Lanes+3)+Lanes) // x with gaps between its rows
			for t := range l {
				copy(wide[t*(Lanes+3):], x[t*Lanes:][:Lanes])
			}
			n, y := make([]float32, p.SpectrumSize()), make([]float32, l*Lanes)
			var first []float32
			for pass := range 3 {
				var frames []framed
				frame := func(x []float32) []float32 {
					f := frame(x, pass*(1+rng.IntN(17)))
					frames = append(frames, f)
					return f.x()
				}
				khat, sum, g, u := p.Spectrum(frame(n)), p.Spectrum(frame(n)), p.Spectrum(frame(n)),
					p.Spectrum(frame(n))
				results := [3][]float32{frame(y), frame(y), frame(y)}
				p.Begin(khat, filled(frame(k)), l)
				p.Begin(g, strided{Rows{frame(dy), Lanes}}, l)
				if pass == 0 {
					p.Begin(u, filled(frame(x)), l)
				} else {
					p.Begin(u, strided{Rows{frame(wide), Lanes + 3}}, l)
				}
				p.Transpose(g, u, khat, sum, Transposed{First: true, Last: true, Again: true})
				p.End(collect{results[0], results[1]}, l, g, u)
				switch pass {
				case 0:
					p.End(collect{results[2], nil}, l, sum, Spectrum{})
				case 1:
					p.End(to{Rows{results[2], Lanes}, Written}, l, sum, Spectrum{})
				default:
					p.End(to{Rows{results[2], Lanes}, Added}, l, sum, Spectrum{})
				}
				y := slices.Concat(results[:]...)
				for _, f := range frames {
					f.check(t, "convolution")
				}
				if pass == 0 {
					first = y
				} else if !slices.Equal(y, first) {
					t.Fatalf("l=%d: results depend on where sequences lie", l)
				}
			}
		}
	})
}

// TestConvWritesFarRows checks, at every level, that rows so far apart that they are written past the caches hold the
// same bits as others, and that nothing between them changes.
func TestConvWritesFarRows(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		const l, step = 1000, 2400
		rng := rand.New(rand.NewPCG(8, 1))
		p := NewConvPlan(l)
		x, k := normals(rng, l*Lanes), normals(rng, l*Lanes)
		want := convolved(p, x, k, l)
		buf := make([]float32, l*step+Lanes)
		for offset := range Lanes { // one of them is the start of a cache line
			clear(buf)
			u := spectrumOf(p, x)
			p.Convolve(u, spectrumOf(p, k), true)
			p.End(to{Rows{buf[offset:], step}, Written}, l, u, Spectrum{})
			var between float32
			for i, v := range buf[offset:] {
				if i%step < Lanes && i/step < l {
					if v != want[i/step*Lanes+i%step] {
						t.Fatalf("offset %d: y[%d] of channel %d is %v, want %v", offset, i/step,
							i%step, v, want[i/step*Lanes+i%step])
					}
				} else if v != 0 {
					between = v
				}
			}
			if between != 0 {
				t.Fatalf("offset %d: rows are written beyond their ends", offset)
			}
		}
	})
}

// TestLongConv checks, at every level, that passes that are split into several calls are correct: a kernel that shifts
// by one moves a sequence of 40,000 points.
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
