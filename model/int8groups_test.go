package model

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// wholeRow is a group as long as any row.
const wholeRow = 1 << 20

// inGroups rounds rows of k numbers as int8 does: to integers from -127 to 127 times a factor for each group of terms.
// A group of 0 rounds nothing.
func inGroups(x []float32, k, group int) []float32 {
	y := append([]float32(nil), x...)
	for at := 0; at < len(y) && group > 0; {
		part := y[at:min(at+group, (at/k+1)*k)]
		top := 0.0
		for _, v := range part {
			top = max(top, math.Abs(float64(v)))
		}
		for i, v := range part {
			if top > 0 {
				part[i] = float32(math.RoundToEven(float64(v)*127/top) * top / 127)
			}
		}
		at += len(part)
	}
	return y
}

// groupedInputs is the CPU's engine with the inputs of products rounded in groups.
type groupedInputs struct {
	*cpu.Engine
	group int
}

func (eng groupedInputs) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	rounded := tensor.FromSlice(inGroups(read(x), x.Dim(-1), eng.group), x.Shape()...)
	return eng.Engine.Linear(rounded, w, bias, a)
}

// roundedLogits are the logits of a Mamba of random weights, with weights and inputs of products rounded in groups.
func roundedLogits(t *testing.T, weights, inputs int) []float32 {
	t.Helper()
	c, err := Preset("mamba-130m")
	if err != nil {
		t.Fatal(err)
	}
	c.DModel, c.NLayer, c.VocabSize = 256, 12, 500
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	m.Params("", func(_ string, p *nn.Param) {
		if packable(p) {
			p.CopyFrom(inGroups(read(p.Tensor), p.Dim(1), weights))
		}
	})
	tape := autograd.NewTapeOn(func(step *engine.Step) engine.Engine {
		return groupedInputs{cpu.New(step), inputs}
	})
	const n = 32
	ids := text(3, n)
	return read(m.Logits(tape, m.Forward(tape, ids, EqualRows(1, n))))
}

// TestWhereInt8Errs shows what decision 11 says of the error of int8: most of it comes from one factor for a whole row
// of inputs, which have outliers where they are products of gates; finer factors of the weights alone gain next to
// nothing; groups of 32 terms for both, as Q8_0 has them, halve it in a Mamba-130M and take two fifths
// of it in this smaller one.
func TestWhereInt8Errs(t *testing.T) {
	exact := roundedLogits(t, 0, 0)
	off := func(weights, inputs int) float64 {
		var errors, all float64
		for i, v := range roundedLogits(t, weights, inputs) {
			d := float64(v - exact[i])
			errors, all = errors+d*d, all+float64(exact[i])*float64(exact[i])
		}
		e := math.Sqrt(errors / all)
		t.Logf("weights in groups of %d, inputs of %d (0: not rounded): %.4f", weights, inputs, e)
		return e
	}
	rows, groups := off(wholeRow, wholeRow), off(32, 32)
	weights, inputs := off(wholeRow, 0), off(0, wholeRow)
	if inputs < 1.5*weights {
		t.Errorf("rounded inputs make an error of %.4f, weights of %.4f: want inputs to make most of it", inputs,
			weights)
	}
	if fine := off(32, wholeRow); fine < 0.9*rows {
		t.Errorf("finer factors of weights alone take the error from %.4f to %.4f: want hardly less", rows, fine)
	}
	if fine := off(wholeRow, 32); fine > 0.7*rows {
		t.Errorf("finer factors of inputs alone take the error from %.4f to %.4f: want much less", rows, fine)
	}
	if groups > 0.7*rows {
		t.Errorf("groups of 32 take the error from %.4f to %.4f: want much less", rows, groups)
	}
}
