package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestConvStaysInBounds checks, at every level, that memory before and after a sequence, a spectrum or rows is not even
// read.
func TestConvStaysInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 1))
		for l := 1; l < 100; l++ {
			p := NewConvPlan(l)
			var frees []func()
			array := func(n int) []float32 {
				x, free := guarded(t, normals(rng, n), l%3 > 0)
				frees = append(frees, free)
				return x
			}
			x, y := array(l*Lanes), array(l*Lanes)
			var s [4]Spectrum
			for i := range s {
				s[i] = p.Spectrum(array(p.SpectrumSize()))
			}
			dy, u, k, sum := s[0], s[1], s[2], s[3]
			p.Begin(dy, strided{Rows{array((l-1)*24 + Lanes), 24}}, l)
			p.Begin(u, strided{Rows{x, Lanes}}, l)
			p.Begin(k, filled(x), l)
			p.Transpose(dy, u, k, sum, Transposed{First: true, Last: true, Again: true})
			p.End(collect{y, nil}, l, u, dy)
			p.End(to{Rows{y, Lanes}, Added}, l, sum, Spectrum{})

			rows := Rows{array((l-1)*24 + Lanes), 24}
			MulRows(rows, Rows{x, Lanes}, rows, l, Lanes)
			MulAddRows(Rows{x, Lanes}, rows, rows, Ones(), l, Lanes)
			cols := Columns{rows.X, 24, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
			Gather(Rows{x, Lanes}, cols, l)
			Scatter(cols, Rows{x, Lanes}, l)

			Transpose(l, Lanes, y, l, x, Lanes)
			ToLanes(x, y, l, l, Lanes, false)
			ToLanes(x, y, l, l, Lanes, true)
			FromLanes(y, x, l, l, Lanes)
			for _, free := range frees {
				free()
			}
		}
	})
}
