package mixer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/ssm"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestLMUEquations checks that the joint recurrence computes the paper's equations, stepped here one by one, and that
// its memory without feedback is HiPPO-LegT over a window of theta, in another basis.
func TestLMUEquations(t *testing.T) {
	golden.Of(t, "lmu")
	const b, l, d, h, q, theta = 2, 30, dModel, 4, 3, 9
	m := variant{"lmu", LMUInfo.New, Config{Options: Options{"hidden": "4", "order": "3", "theta": "9"}},
		true}.mixer(t).(*LMU)
	u := sequences(3, b, l)
	a, bb := ssm.LMU(q)
	memory, err := (&ssm.Continuous{A: a, B: bb, C: make([]float64, q)}).Discretize(1.0/theta, ssm.ZOH)
	if err != nil {
		t.Fatal(err)
	}
	in, bias, wh, wm, ex, e := read(m.In.Weight.Tensor), read(m.In.Bias.Tensor), read(m.H.Tensor), read(m.M.Tensor),
		read(m.EX.Tensor), read(m.E.Tensor)
	out, outBias := read(m.Out.Weight.Tensor), read(m.Out.Bias.Tensor)
	dot := func(w []float32, x []float64) (sum float64) {
		for i, v := range x {
			sum += float64(w[i]) * v
		}
		return sum
	}
	var want []float64
	for s := range b {
		hidden, mem := make([]float64, h), make([]float64, q)
		for i := range l {
			x := make([]float64, d)
			for c := range x {
				x[c] = float64(u.Data()[(s*l+i)*d+c])
			}
			signal := dot(ex, x) + dot(e, hidden) + dot(e[h:], mem)
			memory.Step(mem, signal)
			next := make([]float64, h)
			for k := range next {
				next[k] = math.Tanh(float64(bias[k]) + dot(in[k*d:], x) + dot(wh[k*h:], hidden) + dot(wm[k*q:], mem))
			}
			hidden = next
			for c := range d {
				want = append(want, float64(outBias[c])+dot(out[c*h:], hidden))
			}
		}
	}
	golden.Close(t, "y", read(m.Forward(newTape(), u, equalRows(b, l))), want, 2e-6)

	// Without feedback: the memory of an LMU is that of LegT, by ssm.FromLMU.
	legt, legtB := ssm.LegT(q)
	other, err := (&ssm.Continuous{A: legt, B: legtB, C: make([]float64, q)}).Discretize(1.0/theta, ssm.ZOH)
	if err != nil {
		t.Fatal(err)
	}
	rng, x, y := rand.New(rand.NewPCG(1, 2)), make([]float64, q), make([]float64, q)
	for range 40 {
		v := rng.NormFloat64()
		memory.Step(x, v)
		other.Step(y, v)
	}
	golden.Close(t, "memory as LegT", ssm.FromLMU(x), y, 1e-10)
}

// TestRNNEquations compares the mixer with the paper's equations, computed step by step.
func TestRNNEquations(t *testing.T) {
	golden.Of(t, "rnn")
	m := variant{"rnn", RNNInfo.New, Config{Options: Options{"hidden": "5"}}, true}.mixer(t).(*RNN)
	u := sequences(3, 1, 20)
	w, h := read(m.H.Tensor), make([]float64, 5)
	tape := newTape()
	in := read(m.In.Forward(tape, u))
	var all []float32
	for i := range 20 {
		next := make([]float64, 5)
		for k := range next {
			sum := float64(in[i*5+k])
			for j, v := range h {
				sum += float64(w[k*5+j]) * v
			}
			next[k] = math.Tanh(sum)
		}
		h = next
		for _, v := range h {
			all = append(all, float32(v))
		}
	}
	golden.Close(t, "y", read(m.Forward(tape, u, equalRows(1, 20))),
		wide(read(m.Out.Forward(tape, tensor.FromSlice(all, 20, 5)))), 2e-6)
}
