package autograd_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// gradients returns copies of the gradients of x, with zeros for those that do not exist.
func gradients(tape *autograd.Tape, x ts) [][]float32 {
	out := make([][]float32, len(x))
	for i, v := range x {
		out[i] = orZeros(gradient(tape, v), v.Len())
	}
	return out
}

// TestStepsReuseMemory checks that a step with the same operations as the one before allocates no memory, whichever of
// its inputs want gradients.
func TestStepsReuseMemory(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			in := r.random(r.in, 4)
			for name, b := range engines {
				r.reusesMemory(t, name, b, in)
			}
		})
	}
}

func (r *row) reusesMemory(t *testing.T, name string, b engine.Backend, in [][]float64) {
	for frozen := -1; frozen < len(in); frozen++ {
		tape := autograd.NewTape(b)
		tape.Record(true)
		x := r.tensors(r.in, in)
		for i, v := range x {
			v.SetNeedsGrad(i != frozen)
		}
		tape.Collect(autograd.NewGradients(tape.Backend(), x...))
		var held [4]int
		for step := range held {
			for _, y := range r.op(tape, x) {
				tape.Seed(y, tensor.FromSlice(repeated(y.Len(), []float32{1, 0, 0}), y.Shape()...))
			}
			tape.BackwardSeeded()
			tape.Reset()
			held[step] = tape.Bytes()
		}
		if held[1] != held[3] {
			t.Errorf("%s, input %d frozen: the engine holds %v bytes after each step", name, frozen, held)
		}
	}
}

// TestFrozenInputs checks that an input that wants no gradient gets none, and that the gradients of the others do not
// change.
func TestFrozenInputs(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			for name, b := range engines {
				r.freezes(t, name, b)
			}
		})
	}
}

func (r *row) freezes(t *testing.T, name string, b engine.Backend) {
	in := r.random(r.in, 5)
	run := func(frozen int) (tape *autograd.Tape, x ts) {
		tape, x = autograd.NewTape(b), r.tensors(r.in, in)
		tape.Record(true)
		for i, v := range x {
			v.SetNeedsGrad(i != frozen)
		}
		y := r.op(tape, x)
		zeros := ramp(len(y), func(i int) []float64 { return make([]float64, y[i].Len()) })
		for i, dy := range cotangents(zeros) {
			tape.Seed(y[i], tensor.FromSlice(dy, y[i].Shape()...))
		}
		tape.BackwardSeeded()
		return tape, x
	}
	want := gradients(run(-1))
	for frozen := range in {
		tape, x := run(frozen)
		if tape.Grad(x[frozen]) != nil {
			t.Errorf("%s: input %d is frozen and has a gradient", name, frozen)
		}
		for i, got := range gradients(tape, x) {
			if i != frozen && !slices.Equal(got, want[i]) {
				t.Errorf("%s: with input %d frozen, input %d has the gradient %v, want %v",
					name, frozen, i, got, want[i])
			}
		}
	}
}

// recorder is a backend whose engines append the names of recorded operations to recorded.
type recorder struct {
	engine.Backend
	recorded *[]string
}

func (r recorder) Open(step *engine.Step) engine.Engine {
	step.Push = func(op engine.Op) { *r.recorded = append(*r.recorded, op.Name()) }
	return r.Backend.Open(step)
}

// TestNothingRecorded checks that operations record nothing without recording, or without an input that wants a
// gradient.
func TestNothingRecorded(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			for i := range 2 * len(engines) {
				record, name := i%2 == 1, slices.Sorted(maps.Keys(engines))[i/2]
				var recorded []string
				tape := autograd.NewTape(recorder{engines[name], &recorded})
				tape.Record(record)
				in := r.tensors(r.in, r.random(r.in, 6))
				for _, x := range in {
					x.SetNeedsGrad(!record)
				}
				r.op(tape, in)
				if recorded != nil {
					t.Errorf("%s, recording %v: recorded are %v", tape.Engine(), record, recorded)
				}
			}
		})
	}
}

// BenchmarkOps times forward and backward of every operation at its large shape.
func BenchmarkOps(b *testing.B) {
	for _, r := range table() {
		b.Run(r.name, func(b *testing.B) {
			in := r.tensors(r.big, r.random(r.big, 3))
			tape := autograd.NewTape(cpu.Backend{})
			tape.Record(true)
			var dy []float32
			b.ReportAllocs()
			for b.Loop() {
				for _, y := range r.op(tape, in) {
					if len(dy) < y.Len() {
						dy = make([]float32, y.Len())
						dy[0] = 1
					}
					tape.Seed(y, tensor.FromSlice(dy[:y.Len()], y.Shape()...))
				}
				tape.BackwardSeeded()
				tape.Reset()
			}
		})
	}
}
