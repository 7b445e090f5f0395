package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// toBF16 returns x rounded to the nearest bfloat16, ties to even.
func toBF16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

func mapFloats(x []float32, f func(float32) float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

// linearAt computes y = x Wᵀ + bias and its backward from dy at a precision.
func linearAt(p engine.Precision, x, w, bias, dy []float32, m, n, k int) [4][]float32 {
	t := NewTape()
	t.Record(true)
	t.SetPrecision(p)
	var in [3]*tensor.Tensor
	for i, v := range []struct {
		data  []float32
		shape []int
	}{{x, []int{m, k}}, {w, []int{n, k}}, {bias, []int{n}}} {
		in[i] = tensor.New(v.shape...)
		in[i].CopyFrom(v.data)
		in[i].SetNeedsGrad(true)
	}
	y := t.Linear(in[0], in[1], in[2], engine.None)
	out := slices.Clone(y.Data())
	t.BackwardFrom(y, dy)
	return [4][]float32{out, t.gradient(in[0]), t.gradient(in[1]), t.gradient(in[2])}
}

// TestPrecisionRoundsOperands checks that at BF16 each product is the float32 product of rounded operands, up to the
// order of its sums: y of x and W, dx of dy and W, dW of dy and x. The bias and its gradient are not rounded.
func TestPrecisionRoundsOperands(t *testing.T) {
	const m, n, k = 37, 29, 83
	rng := rand.New(rand.NewPCG(1, 2))
	x, w, bias, dy := normals(rng, m*k), normals(rng, n*k), normals(rng, n), normals(rng, m*n)
	got := linearAt(engine.BF16, x, w, bias, dy, m, n, k)
	want := linearAt(engine.Float32, mapFloats(x, toBF16), mapFloats(w, toBF16), bias, mapFloats(dy, toBF16), m, n, k)
	want[3] = linearAt(engine.Float32, x, w, bias, dy, m, n, k)[3]
	for i, what := range []string{"y", "dx", "dW", "dbias"} {
		ref := make([]float64, len(want[i]))
		for j, v := range want[i] {
			ref[j] = float64(v)
		}
		compare(t, what, got[i], ref, 2e-6) // some rounding errors of float32 in sums of up to 83 terms
	}
}

// normals returns n random numbers from a normal distribution.
func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// roundsOperands checks that results and gradients of op at BF16 differ from those at float32, but only by the rounding
// of its operands, 2^-9 each.
func roundsOperands(t *testing.T, shapes [][]int, op func(t *Tape, in []*tensor.Tensor) *tensor.Tensor) {
	run := func(p engine.Precision) (results [][]float32) {
		rng := rand.New(rand.NewPCG(3, 4))
		var in []*tensor.Tensor
		for _, shape := range shapes {
			x := tensor.New(shape...)
			x.CopyFrom(normals(rng, x.Len()))
			x.SetNeedsGrad(true)
			in = append(in, x)
		}
		tape := NewTape()
		tape.Record(true)
		tape.SetPrecision(p)
		y := op(tape, in)
		results = append(results, slices.Clone(y.Data()))
		tape.BackwardFrom(y, normals(rng, y.Len()))
		for _, x := range in {
			results = append(results, tape.gradient(x))
		}
		return results
	}
	got, want := run(engine.BF16), run(engine.Float32)
	for i := range got {
		var diff, norm float64
		for j := range got[i] {
			diff += math.Pow(float64(got[i][j]-want[i][j]), 2)
			norm += math.Pow(float64(want[i][j]), 2)
		}
		if e := math.Sqrt(diff / norm); !(e > 1e-6 && e < 2e-2) {
			t.Errorf("gradient or result %d: relative error %g, want that of bfloat16, 1e-6 to 2e-2", i, e)
		}
	}
}

// TestHeadRoundsOperands checks the head with its loss, and its gradients, at BF16.
func TestHeadRoundsOperands(t *testing.T) {
	targets := make([]int32, 33)
	for i := range targets {
		targets[i] = int32(7 * i % 101)
	}
	roundsOperands(t, [][]int{{33, 48}, {101, 48}}, func(t *Tape, in []*tensor.Tensor) *tensor.Tensor {
		return t.LinearCrossEntropy(in[0], in[1], targets)
	})
}

// TestRecurrenceRoundsOperands checks a recurrent network over rows of several lengths, at BF16.
func TestRecurrenceRoundsOperands(t *testing.T) {
	roundsOperands(t, [][]int{{40, 24}, {24, 24}}, func(t *Tape, in []*tensor.Tensor) *tensor.Tensor {
		return t.Recurrence(in[0], in[1], 12, engine.NewRows(1, 3, 2, 2, 1, 4, 3, 3, 2, 4, 3, 2, 2, 4, 4), nil)
	})
}

func TestParsePrecision(t *testing.T) {
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4, engine.Int4Min} {
		if got, err := engine.ParsePrecision(p.String()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	if _, err := engine.ParsePrecision("fp16"); err == nil {
		t.Error("fp16 was accepted")
	}
}
