package autograd_test

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// steppedOperations are the operations that an engine.RowStepper steps.
var steppedOperations = []string{"ShiftSSM", "DiagSSM", "DPLRSSM", "SelectiveScan", "SSD",
	"CausalConv", "Recurrence", "RGLRU", "DeltaRule", "Phase"}

// TestSteppedRows checks that one call with stepped rows has the same bits as a call for each of their positions, in
// each precision, at small and large shapes.
func TestSteppedRows(t *testing.T) {
	if !autograd.NewTape(engines["cpu"]).StepsRows() {
		t.Fatal("the CPU's engine steps no rows")
	}
	for _, name := range steppedOperations {
		t.Run(name, func(t *testing.T) {
			tried := false
			for _, s := range allSequences {
				if of, _, _ := strings.Cut(s.name, "/"); of != name || len(s.states) == 0 || s.fixed {
					continue
				}
				for _, s := range []*sequences{&s, s.big} {
					if s != nil {
						s.stepped(t, engine.Float32)
						s.stepped(t, engine.BF16)
						tried = true
					}
				}
			}
			if !tried {
				t.Error("found no row of the table with states")
			}
		})
	}
}

// stepped compares rows of 5, 1 and 8 positions, stepped after 3 others, with calls of one position.
func (s *sequences) stepped(t *testing.T, p engine.Precision) {
	one := *s
	one.lens, one.keeps, one.trains = []int{5, 1, 8}, []bool{true, true, true}, false
	const start = 3
	r := row{scale: s.scale, of: s.of}
	in := r.random(one.shapes(), 13)
	tape := autograd.NewTape(engines["cpu"])
	tape.SetPrecision(p)
	all := &engine.Rows{}
	for _, l := range one.lens {
		all.AddStepped(l, start)
	}
	along, params, states := one.parts(r.tensors(one.shapes(), in))
	y, next := one.op(tape, along, params, all, states)
	var got, gotNext [][]float32
	for _, x := range y {
		got = append(got, numbers(x))
	}
	for _, of := range next {
		for _, x := range of {
			gotNext = append(gotNext, numbers(x))
		}
	}

	along, params, states = one.parts(r.tensors(one.shapes(), in))
	want := make([][]float32, len(got))
	var wantNext [][]float32
	for i, l := range one.lens {
		for at := range l {
			xs := make(ts, len(along))
			for k, x := range along {
				w := one.along[k]
				xs[k] = tensor.FromSlice(numbers(x)[(all.From(i)+at)*w:][:w], 1, w)
			}
			rows := &engine.Rows{}
			rows.Add(1, start+at)
			y, next := one.op(tape, xs, params, rows, states[i:i+1])
			for k, x := range y {
				want[k] = append(want[k], numbers(x)...)
			}
			states[i] = next[0]
		}
		for _, x := range states[i] {
			wantNext = append(wantNext, numbers(x))
		}
	}
	if !same(got, want) || !same(gotNext, wantNext) {
		t.Errorf("%s, %v: stepped rows have other bits than their positions one by one", s.name, p)
	}
}
