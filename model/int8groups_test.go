package model

import (
	"fmt"
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// wholeRow is a group that is at least as long as any row.
const wholeRow = 1 << 20

// inGroups rounds rows of k numbers as int8 does: to integers from -127 to 127 times a factor for each group of terms.
// A group size of 0 rounds nothing.
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

// groupedInputs is the CPU's engine, except that it rounds the inputs of products in groups.
type groupedInputs struct {
	*cpu.Engine
	group int
}

func (eng groupedInputs) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	rounded := tensor.FromSlice(inGroups(read(x), x.Dim(-1), eng.group), x.Shape()...)
	return eng.Engine.Linear(rounded, w, bias, a)
}

// smallMamba returns a small Mamba with random weights.
func smallMamba(t *testing.T) *Model {
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
	return m
}

// roundedLogits returns the logits of smallMamba with weights and inputs of products rounded in groups.
func roundedLogits(t *testing.T, weights, inputs int) []float32 {
	t.Helper()
	m := smallMamba(t)
	m.Params("", func(_ string, p *nn.Param) {
		if packable(p) {
			p.CopyFrom(inGroups(read(p.Tensor), p.Dim(1), weights))
		}
	})
	return someLogits(m, autograd.NewTape(cpu.Backend{}).Through(func(e engine.Engine) engine.Engine {
		return groupedInputs{e.(*cpu.Engine), inputs}
	}))
}

// someLogits returns the logits of a text.
func someLogits(m *Model, tape *autograd.Tape) []float32 {
	const n = 32
	return read(m.Logits(tape, m.Forward(tape, text(3, n), EqualRows(1, n))))
}

// TestWhereInt8Errs shows why int8 has factors for groups of 32 terms, as decision 11 says: with one factor for a row,
// most of the error comes from the inputs, which have outliers after gates. Finer factors for the weights alone gain
// almost nothing. Groups of 32 terms for both halve the error in a Mamba-130M and remove two fifths of it in this
// smaller model. int8 is as exact as such groups.
func TestWhereInt8Errs(t *testing.T) {
	exact := roundedLogits(t, 0, 0)
	offBy := func(what string, logits []float32) float64 {
		var errors, all float64
		for i, v := range logits {
			d := float64(v - exact[i])
			errors, all = errors+d*d, all+float64(exact[i])*float64(exact[i])
		}
		e := math.Sqrt(errors / all)
		t.Logf("%s: %.4f", what, e)
		return e
	}
	off := func(weights, inputs int) float64 {
		return offBy(fmt.Sprintf("weights in groups of %d, inputs of %d (0: not rounded)", weights, inputs),
			roundedLogits(t, weights, inputs))
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
	// The factors of int8 have 16 bits, unlike those of inGroups.
	m := smallMamba(t)
	if err := m.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	if packed := offBy("int8", someLogits(m, autograd.NewTape(cpu.Backend{}))); packed > 1.05*groups || packed > 0.025 {
		t.Errorf("int8 is off by %.4f, want %.4f, as groups of 32 are, and at most 0.025", packed, groups)
	}
}
