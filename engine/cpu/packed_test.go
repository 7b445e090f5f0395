package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
)

// TestPackedFrozen checks that frozen weights give the products of the rounded weights in float32, for one row of x,
// and for as many as are multiplied piece by piece, with a bias and without. With integers, only the latter leave x
// unrounded.
func TestPackedFrozen(t *testing.T) {
	const n, k = 70, 64
	for p, rows := range map[engine.Precision][]int{engine.BF16: {1, 3, 200}, engine.Int8: {8, 200},
		engine.Int4: {8, 200}} {
		rng := rand.New(rand.NewPCG(7, 3))
		w, bias, rounded := randomTensor(rng, n, k), randomTensor(rng, n), randomTensor(rng, n, k)
		kernel.RoundBF16(rounded.Data(), w.Data())
		engine.PackTensors(Backend{}, p, engine.PackFrozen, w)
		for j := range n {
			if p >= engine.Int8 {
				w.Packed().(packedWeight).ReadRow(rounded.Data()[j*k:][:k], j)
			}
		}
		for _, m := range rows {
			x := randomTensor(rng, m, k)
			eng := New(&engine.Step{})
			got, want := eng.Linear(x, w, bias, engine.None), eng.Linear(x, rounded, bias, engine.None)
			got2, want2 := eng.Linear(x, w, nil, engine.None), eng.Linear(x, rounded, nil, engine.None)
			near := func(a, b float32) bool { return a-b < 1e-4 && b-a < 1e-4 }
			if !slices.EqualFunc(got.Data(), want.Data(), near) || !slices.EqualFunc(got2.Data(), want2.Data(), near) {
				t.Errorf("%v, %d rows: the products are not those of the rounded weights", p, m)
			}
		}
	}
}
