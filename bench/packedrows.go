package bench

import (
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// packedRows holds matrices packed as a model packs its own, and rows to multiply by them.
type packedRows struct {
	ws   []*kernel.Packed
	rows int
	x, y []float32
}

// matricesPastCaches is a number of matrices that exceeds the caches.
const matricesPastCaches = 20

func newPackedRows(p kernel.Precision, rows, matrices, shrink int) *packedRows {
	inputs := 768 / shrink
	outputs := 4 * inputs
	rng := rand.New(rand.NewPCG(1, 1))
	w := make([]float32, outputs*inputs)
	for i := range w {
		w[i] = float32(0.02 * rng.NormFloat64())
	}
	same := make([]kernel.Matrix, matrices)
	for i := range same {
		same[i] = kernel.InMemory(w, outputs, inputs)
	}
	s := &packedRows{kernel.Pack(p, same...), rows, make([]float32, rows*inputs), make([]float32, rows*outputs)}
	for i := range s.x {
		s.x[i] = float32(rng.NormFloat64())
	}
	return s
}

// bytes returns the memory of the matrices.
func (s *packedRows) bytes() (n int) {
	for _, w := range s.ws {
		n += w.Bytes()
	}
	return n
}

func (s *packedRows) multiply() error {
	inputs := len(s.x) / s.rows
	outputs := len(s.y) / s.rows
	for _, w := range s.ws {
		w.Mul(s.rows, s.x, inputs, s.y, outputs, nil)
	}
	return nil
}
