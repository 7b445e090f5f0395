package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestPanelsGiveTheBitsOfGemm checks products with all of B, and with its first columns and terms, at every level and
// precision.
func TestPanelsGiveTheBitsOfGemm(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, s := range []struct{ m, n, k, columns, terms int }{
			{64, 130, 64, 130, 64}, {16, 130, 64, 97, 64}, {1, 48, 33, 48, 33},
			{9, 64, 1000, 64, 1000}, {17, 64, 1000, 64, 801},
			{200, 500, 50, 433, 50}, {3, 16, 2, 5, 2},
		} {
			for _, op := range []Op{NN, NT} {
				for _, p := range []Precision{Float32, BF16} {
					t.Run(fmt.Sprintf("%v/%v/%v", p, op, s), func(t *testing.T) {
						rng := rand.New(rand.NewPCG(1, 1))
						a, b := normals(rng, s.m*s.terms), normals(rng, s.n*s.k)
						ldb := map[Op]int{NN: s.n, NT: s.k}[op]
						panels := p.Panels(op, s.n, s.k, b, ldb, make([]float32, p.PanelsLen(op, s.n, s.k)))
						panels.Fill()
						got := normals(rng, s.m*s.columns)
						want := append([]float32(nil), got...)
						for _, add := range []bool{true, false} {
							panels.GemmInline(s.m, s.columns, s.terms, a, s.terms, got, s.columns, add)
							p.GemmInline(Product{
								Op: op, M: s.m, N: s.columns, K: s.terms, A: a, LDA: s.terms, B: b, LDB: ldb,
								C: want, LDC: s.columns, Add: add,
							})
							for i := range want {
								if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
									t.Fatalf("add %v, element %d: %v, want %v", add, i, got[i], want[i])
								}
							}
						}
					})
				}
			}
		}
	})
}
