package autograd

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/engine/reference"
	"github.com/hippo-ssm/hippo/tensor"
)

// filled returns a leaf whose elements are all v.
func filled(v float32, shape ...int) *tensor.Tensor {
	x := tensor.New(shape...)
	for i := range x.Data() {
		x.Data()[i] = v
	}
	x.SetNeedsGrad(true)
	return x
}

// TestFirstNonFinite checks that FirstNonFinite finds the operation that created the first NaN or infinity, not one
// that passed it on.
func TestFirstNonFinite(t *testing.T) {
	tape := NewTape(cpu.Backend{})
	tape.Record(true)
	run := func(bad float32) (string, bool) {
		tape.Reset()
		tape.Scope("layers.0.mixer")
		x := tape.Linear(filled(1, 6, 4), filled(1, 4, 4), nil, engine.None)
		tape.Scope("layers.0.mlp")
		w := filled(1, 6, 4)
		w.Data()[7] = bad
		x = tape.GLU(tape.Linear(x, w, nil, engine.GeluTanh))
		tape.Scope("lm_head")
		tape.LinearCrossEntropy(x, filled(1, 5, 3), make([]int32, 6))
		return tape.FirstNonFinite()
	}
	if where, found := run(1); found {
		t.Errorf("all is finite, but it found %s", where)
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32} {
		if where, found := run(bad); !found || where != "layers.0.mlp (Linear)" {
			t.Errorf("with a weight of %v it found %q", bad, where)
		}
	}
}

// TestFrozenLeavesWantNoGradient checks that on a frozen tape only tensors created on it and marked for a gradient get
// one, with the same numbers. The marks of leaves remain as they were, and leaves may be packed.
func TestFrozenLeavesWantNoGradient(t *testing.T) {
	for _, tape := range []*Tape{NewTape(cpu.Backend{}), NewTape(reference.Backend{})} {
		w, table := filled(0.5, 4, 4), filled(0.25, 5, 4)
		grads := func(frozen bool) (dx, dw []float32) {
			tape.Reset()
			tape.DropGrads(w, table)
			tape.Record(true)
			tape.Freeze(frozen)
			x := tape.New(6, 4)
			x.CopyFrom(filled(2, 6, 4).Data())
			x.SetNeedsGrad(true)
			y := tape.Linear(x, w, nil, engine.GeluTanh)
			tape.Backward(tape.LinearCrossEntropy(tape.Mul(y, x), table, make([]int32, 6)))
			dx, dw = make([]float32, 24), make([]float32, 16)
			if g := tape.Grad(x); g == nil || g.CopyTo(dx) != 24 {
				t.Errorf("%s: found no gradient of what the tape made", tape.Engine())
			}
			if g := tape.Grad(w); (g != nil) == frozen || (tape.Grad(table) != nil) == frozen {
				t.Errorf("%s: found gradients of leaves %v", tape.Engine(), !frozen)
			} else if g != nil {
				g.CopyTo(dw)
			}
			return dx, dw
		}
		want, _ := grads(false)
		got, _ := grads(true)
		if !slices.Equal(got, want) || !w.NeedsGrad() {
			t.Errorf("%s: found %v, want %v", tape.Engine(), got, want)
		}
		if tape.Engine() == "cpu" {
			engine.PackTensors(tape.Backend(), engine.Float32, engine.PackRounded, w, table)
			if got, _ := grads(true); !slices.Equal(got, want) {
				t.Errorf("packed: found %v, want %v", got, want)
			}
		}
	}
}

// TestReleaseSince checks that, without recording, kept tensors keep their values and other memory is reused, and that
// with recording everything is kept.
func TestReleaseSince(t *testing.T) {
	for _, record := range []bool{false, true} {
		tape := NewTape(cpu.Backend{})
		tape.Record(record)
		before := tape.Add(filled(1, 40), filled(2, 40))
		mark := tape.Mark()
		a := tape.Add(before, before)
		kept := tape.Add(a, before)
		dead := tape.Add(a, a)
		tape.ReleaseSince(mark, kept)
		held := tape.Bytes()
		var again [2]*tensor.Tensor
		for i := range again {
			again[i] = tape.Add(filled(0, 40), filled(0, 40))
		}
		if grown := tape.Bytes() > held; grown != record {
			t.Errorf("recording %v: memory grows: %v", record, grown)
		}
		for _, x := range []struct {
			what string
			x    *tensor.Tensor
			want float32
			live bool
		}{
			{"what was made before", before, 3, true}, {"what is kept", kept, 9, true},
			{"the rest", a, 6, record}, {"the rest", dead, 12, record},
		} {
			if live := x.x.Data()[0] == x.want && x.x.Data()[39] == x.want; live != x.live {
				t.Errorf("recording %v: %s lives: %v, want %v", record, x.what, live, x.live)
			}
		}
	}
}

// TestShapePanics checks that wrong shapes, which are programming errors, panic with the operation and the shapes.
func TestShapePanics(t *testing.T) {
	x, w, r := filled(1, 6, 4), filled(1, 5, 4), engine.EqualRows(2, 3)
	diag := &engine.DiagParams{LogDt: filled(1, 4), InvAReal: filled(1, 4, 2),
		AImag: filled(1, 4, 2), C: filled(1, 4, 2, 2)}
	for _, c := range []struct {
		want []string
		f    func(t *Tape)
	}{
		{[]string{"Add", "(6, 4)", "(5, 4)"}, func(t *Tape) { t.Add(x, w) }},
		{[]string{"Linear", "(6, 4)", "(3, 5)"}, func(t *Tape) { t.Linear(x, filled(1, 3, 5), nil, engine.None) }},
		{[]string{"Linear", "(6)"}, func(t *Tape) { t.Linear(x, w, filled(1, 6), engine.None) }},
		{[]string{"GLU", "(2, 3)"}, func(t *Tape) { t.GLU(filled(1, 2, 3)) }},
		{[]string{"AddLayerNorm", "(3)"}, func(t *Tape) { t.AddLayerNorm(x, nil, filled(1, 3), filled(1, 4), 1e-5) }},
		{[]string{"AddLayerNorm", "(5, 4)"}, func(t *Tape) { t.AddLayerNorm(x, w, filled(1, 4), filled(1, 4), 1e-5) }},
		{[]string{"Attention", "(6, 4)"}, func(t *Tape) { t.Attention(x, r, nil, engine.AttentionOptions{Heads: 1}) }},
		{[]string{"ShiftSSM", "(7)"}, func(t *Tape) {
			t.ShiftSSM(x, filled(1, 4, 2), filled(1, 7), filled(1, 4), r, nil)
		}},
		{[]string{"DiagSystem", "(3, 2)"}, func(t *Tape) {
			t.DiagSystem(&engine.DiagParams{LogDt: filled(1, 4), InvAReal: filled(1, 3, 2),
				AImag: filled(1, 4, 2), C: filled(1, 4, 2, 2)})
		}},
		{[]string{"DiagSSM", "(3)"}, func(t *Tape) {
			t.DiagSSM(engine.Gates{V: x}, t.DiagSystem(diag), filled(1, 3), r, nil)
		}},
		{[]string{"LinearCrossEntropy", "5 targets"}, func(t *Tape) { t.LinearCrossEntropy(x, w, make([]int32, 5)) }},
		{[]string{"LinearCrossEntropy", "target 5", "want one of 5 classes"}, func(t *Tape) {
			t.LinearCrossEntropy(x, w, []int32{0, 1, 2, 3, 4, 5})
		}},
		{[]string{"Embedding", "id -1", "vocabulary of 5"}, func(t *Tape) { t.Embedding(w, []int32{-1}) }},
		{[]string{"Reverse", "2 rows of 6 positions", "(5, 4)"}, func(t *Tape) { t.Reverse(w, 0, r) }},
		{[]string{"Cut", "(6, 4)"}, func(t *Tape) { t.Cut(x, r, []int{0, 1}, []int{3, 3}) }},
		{[]string{"Slice", "(6, 4)"}, func(t *Tape) { t.Slice(x, 4, 3) }},
		{[]string{"Recurrence", "1 slots for 2 rows"}, func(t *Tape) {
			t.Recurrence(x, filled(1, 4, 4), 4, r, engine.Slots{nil})
		}},
		{[]string{"Recurrence", "(3)", "row 1", "want 4 elements"}, func(t *Tape) {
			t.Recurrence(x, filled(1, 4, 4), 4, r, engine.Slots{nil, {X: filled(1, 3)}})
		}},
		{[]string{"Backward", "(6, 4)"}, func(t *Tape) { t.Backward(x) }},
		{[]string{"Seed", "(6, 4)"}, func(t *Tape) { t.BackwardFrom(x, tensor.New(3)) }},
	} {
		func() {
			defer func() {
				msg := fmt.Sprint(recover())
				for _, part := range c.want {
					if !strings.Contains(msg, part) {
						t.Errorf("panic %q, want it to have %q", msg, part)
					}
				}
			}()
			c.f(NewTape(cpu.Backend{}))
		}()
	}
}

// TestBackwardFrom checks that BackwardFrom has the bits of Seed and BackwardSeeded and does not change the cotangent,
// whether the last operation only reads it or overwrites it, and whether another one has used y or has seeded it.
func TestBackwardFrom(t *testing.T) {
	x, w := filled(0.5, 12, 8), filled(0.25, 6, 8)
	p := &engine.DiagParams{LogDt: filled(-3, 6), InvAReal: filled(0.1, 6, 4), AImag: filled(2, 6, 4),
		B: filled(1, 6, 4, 2), C: filled(0.3, 6, 4, 2)}
	leaves := []*tensor.Tensor{x, w, p.LogDt, p.InvAReal, p.AImag, p.B, p.C}
	for name, build := range map[string]func(t *Tape) *tensor.Tensor{
		"Linear":           func(t *Tape) *tensor.Tensor { return t.Linear(x, w, nil, engine.None) },
		"Linear, GeluTanh": func(t *Tape) *tensor.Tensor { return t.Linear(x, w, nil, engine.GeluTanh) },
		"DiagKernel":       func(t *Tape) *tensor.Tensor { return t.DiagKernel(t.DiagSystem(p), 12) },
		"Linear, used": func(t *Tape) *tensor.Tensor {
			y := t.Linear(x, w, nil, engine.None)
			t.Mul(y, y)
			return y
		},
		"Linear, seeded": func(t *Tape) *tensor.Tensor {
			y := t.Linear(x, w, nil, engine.None)
			t.Seed(y, tensor.FromSlice(ramp(y.Len()), y.Shape()...))
			return y
		},
		"Linear of a frozen": func(t *Tape) *tensor.Tensor {
			return t.Linear(tensor.New(12, 8), tensor.New(6, 8), nil, engine.None)
		},
	} {
		gradients := func(back func(t *Tape, y, dy *tensor.Tensor)) (out [][]float32) {
			tape := NewTape(cpu.Backend{})
			grads := NewGradients(tape.Backend(), leaves...)
			tape.Collect(grads)
			tape.Record(true)
			for range 2 { // the second time in used memory
				tape.Reset()
				y := build(tape)
				dy := ramp(y.Len())
				back(tape, y, tensor.FromSlice(dy, y.Shape()...))
				if !slices.Equal(dy, ramp(y.Len())) {
					t.Errorf("%s: the cotangent has changed", name)
				}
				if y.Grad() != nil && y.NeedsGrad() {
					t.Errorf("%s: the result still has a gradient", name)
				}
			}
			for _, g := range grads.Each() {
				out = append(out, g.Data())
			}
			return out
		}
		got := gradients((*Tape).BackwardFrom)
		want := gradients(func(t *Tape, y, dy *tensor.Tensor) {
			t.Seed(y, dy)
			t.BackwardSeeded()
		})
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("%s: gradient of leaf %d is %v, want %v", name, i, got[i], want[i])
			}
		}
	}
}

// ramp returns 1, 1/2, 1/3 and so on.
func ramp(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1 / float32(i+1)
	}
	return x
}
