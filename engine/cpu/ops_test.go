package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hippo-ssm/hippo/tensor"
)

// row describes random inputs.
type row struct {
	in    [][]int   // shapes
	scale []float64 // of the random inputs, 1 where nil; one per input
}

type ts = []*tensor.Tensor

// array is a float64 tensor of the reference.
type array struct {
	shape []int
	x     []float64
}

func newArray(shape ...int) array {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return array{shape, make([]float64, n)}
}

func (r row) inputs(shapes [][]int, seed uint64) []array {
	rng := rand.New(rand.NewPCG(seed, 7))
	in := make([]array, len(shapes))
	for i, s := range shapes {
		in[i] = newArray(s...)
		scale := 1.0
		if r.scale != nil {
			scale = r.scale[i]
		}
		for j := range in[i].x {
			in[i].x[j] = float64(float32(rng.NormFloat64() * scale)) // exact in float32
		}
	}
	return in
}

func tensors(in []array) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(in))
	for i, a := range in {
		out[i] = tensor.New(a.shape...)
		for j, v := range a.x {
			out[i].Data()[j] = float32(v)
		}
		out[i].SetNeedsGrad(true)
	}
	return out
}

func compare(t *testing.T, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	scale, worst, at := 1e-3, 0.0, 0
	for _, v := range want {
		scale = math.Max(scale, math.Abs(v))
	}
	for i, v := range want {
		if e := math.Abs(float64(got[i]) - v); e > worst || e != e {
			worst, at = e, i
		}
	}
	if !(worst <= tol*scale) {
		t.Errorf("%s: element %d is %g, want %g: error %.2g of the largest element, want at most %.2g",
			what, at, got[at], want[at], worst/scale, tol)
	}
}
