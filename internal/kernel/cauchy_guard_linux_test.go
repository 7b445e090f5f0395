package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestCauchyStaysInBounds checks that memory before and after an array is not even read.
func TestCauchyStaysInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 2))
		for _, m := range []int{1, 4, 9} {
			for nodes := 1; nodes < 20; nodes++ {
				for _, atEnd := range []bool{false, true} {
					var frees []func()
					alloc := func(x []float64) []float64 {
						y, free := guarded(t, make([]float32, 2*len(x)), atEnd)
						frees = append(frees, free)
						z := unsafe.Slice((*float64)(unsafe.Pointer(&y[0])), len(x))
						copy(z, x)
						return z
					}
					inside := func(c *Cauchy) *Cauchy {
						return &Cauchy{M: m, Norm: alloc(c.Norm), Damp: alloc(c.Damp), Coef: alloc(c.Coef)}
					}
					all := newCauchyCase(rng, 3, m, 2*nodes)
					points := all.squares[:nodes]
					s := alloc(make([]float64, 2*m*nodes))
					c, points := inside(all.cauchy()), alloc(points)
					CauchySums(s, points, c)
					CauchySumsGrad(inside(newCauchy(3, m)), s, points, c)
					for _, free := range frees {
						free()
					}
				}
			}
		}
	})
}

// TestCauchyDoesNotAllocate checks that the sums and their gradient do not allocate, even for a number of points that
// is not a multiple of the vector size.
func TestCauchyDoesNotAllocate(t *testing.T) {
	all := newCauchyCase(rand.New(rand.NewPCG(5, 2)), 3, 9, 26)
	c, points := all.cauchy(), all.squares
	s, d := make([]float64, 2*9*len(points)), newCauchy(3, 9)
	if n := testing.AllocsPerRun(10, func() {
		CauchySums(s, points, c)
		CauchySumsGrad(d, s, points, c)
	}); n > 0 {
		t.Errorf("%v objects", n)
	}
}
