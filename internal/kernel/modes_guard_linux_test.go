package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestModesStayInBounds checks, at every level, that memory before and after modes and their rows is not even read.
func TestModesStayInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 2))
		for n := ModeLanes; n <= 3*ModeLanes; n += ModeLanes {
			for _, atEnd := range []bool{false, true} {
				var frees []func()
				floats := func(n int) []float32 {
					x, free := guarded(t, normals(rng, n), atEnd)
					frees = append(frees, free)
					return x
				}
				modes := func() Modes {
					x := floats(4 * n)
					m := unsafe.Slice((*float64)(unsafe.Pointer(&x[0])), 2*n)
					for i := range m {
						m[i] = rng.NormFloat64()
					}
					return m
				}
				const rows = 8
				v := powerMatrix{n: n, rows: rows}
				w, p := floats(rows*2*n), floats(rows*2*n)
				v.powers(w, rows, modes(), modes(), modes())
				v.modeSums(floats(4*n), p, w, rows)
				a, b, x, y, ddt := modes(), modes(), modes(), modes(), modes()[n:]
				slowModes(modes(), modes(), x, a, 2)
				x.Mul(1, a, b)
				x.MulConj(1, a, b)
				x.AddConjMul(1, a, b)
				NegExp(ddt)
				d := Discretization{A: a, B: b, Dt: 0.1, Abar: x, Bbar: y}
				grad := DiscretizationGrad{A: modes(), B: modes(), Dt: ddt, Abar: modes(), Bbar: modes()}
				d.Bilinear()
				d.BilinearGrad(&grad)
				d.ZOH()
				d.ZOHGrad(&grad)
				for _, free := range frees {
					free()
				}
			}
		}
	})
}

// TestHalfbandStaysInBounds checks, at every level, that memory before and after the filters' operands is not even
// read.
func TestHalfbandStaysInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 3))
		for l := 1; l < 100; l++ {
			for _, atEnd := range []bool{false, true} {
				var frees []func()
				floats := func(n int) []float32 {
					x, free := guarded(t, normals(rng, n), atEnd)
					frees = append(frees, free)
					return x
				}
				x, y := floats(positions(l, 1)), floats(l)
				upsample(y, x)
				downsample(x, y, floats(l/2+2*halfbandTaps))
				for _, free := range frees {
					free()
				}
			}
		}
	})
}
