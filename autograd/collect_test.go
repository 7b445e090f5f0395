package autograd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestCollectedGradients checks that the gradients that a tape collects equal those that it would have otherwise, for
// every operation on all engines, and are twice as large after two backward passes. In each pass, each leaf is final
// once, and its gradient does not change afterwards.
func TestCollectedGradients(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			in := r.random(r.in, 4)
			for engineName, tape := range tapes() {
				x := r.tensors(r.in, in)
				backward := func(tape *autograd.Tape) {
					tape.Record(true)
					y := r.op(tape, x)
					for _, o := range y {
						tape.Seed(o, tensor.FromSlice(repeated(o.Len(), []float32{1, 0.5, 0}), o.Shape()...))
					}
					tape.BackwardSeeded()
					tape.Reset()
				}
				alone := tape.Another()
				backward(alone)
				want := gradients(alone, x)
				grads := autograd.NewGradients(tape.Backend(), x...)
				tape.Collect(grads)
				var finals []int
				final := make([][]float32, len(x))
				grads.Final = func(leaf int) {
					finals = append(finals, leaf)
					final[leaf] = numbers(grads.Each()[leaf])
				}
				for pass := range 2 {
					finals = finals[:0]
					backward(tape)
					if slices.Sort(finals); !slices.Equal(finals, ramp(len(x), func(i int) int { return i })) {
						t.Errorf("%s: final are the leaves %v, want each of %d once", engineName, finals, len(x))
					}
					for i, v := range x {
						what := fmt.Sprintf("%s: pass %d, leaf %d", engineName, pass, i)
						if !slices.Equal(final[i], numbers(grads.Of(v))) {
							t.Errorf("%s: its gradient has changed since it was final", what)
						}
						scaled := ramp(len(want[i]), func(j int) float64 {
							return float64(pass+1) * float64(want[i][j])
						})
						near(t, what, numbers(grads.Of(v)), scaled, 1e-5)
					}
				}
			}
		})
	}
}

// TestFinalGradients checks that leaves become final during backward: those that were not used before all others, then
// those that were first used last, and so on.
func TestFinalGradients(t *testing.T) {
	for engineName, tape := range tapes() {
		var x ts
		for range 5 {
			w := tensor.New(4, 4)
			w.Fill(0.5)
			w.SetNeedsGrad(true)
			x = append(x, w)
		}
		grads := autograd.NewGradients(tape.Backend(), x...)
		var order []int
		grads.Final = func(leaf int) { order = append(order, leaf) }
		tape.Collect(grads)
		tape.Record(true)
		for _, from := range []string{"Backward", "BackwardSeeded"} {
			order = order[:0]
			y := tape.Linear(x[0], x[3], nil, engine.None)
			y = tape.Linear(y, x[1], nil, engine.None)
			y = tape.Linear(y, x[3], nil, engine.None)
			y = tape.Linear(y, x[4], nil, engine.None)
			dy := repeated(y.Len(), []float32{1})
			if from == "Backward" {
				tape.BackwardFrom(y, tensor.FromSlice(dy, y.Shape()...))
			} else {
				tape.Seed(y, tensor.FromSlice(dy, y.Shape()...))
				tape.BackwardSeeded()
			}
			// Leaf 2 is not used. Leaves 0 and 3 are used by the first operation.
			if len(order) != 5 || !slices.Equal(order[:3], []int{2, 4, 1}) {
				t.Errorf("%s, %s: final are %v, want 2, 4, 1 and then 0 and 3", engineName, from, order)
			}
			tape.Reset()
		}
	}
}

// TestGradientsOfOtherLeaves checks that leaves that are not collected keep their gradients on the tape, and that
// another tape does not see them.
func TestGradientsOfOtherLeaves(t *testing.T) {
	x, w := tensor.New(2, 3), tensor.New(4, 3)
	x.Fill(1)
	w.Fill(2)
	x.SetNeedsGrad(true)
	w.SetNeedsGrad(true)
	tape, other := autograd.NewTape(cpu.Backend{}), autograd.NewTape(cpu.Backend{})
	grads := autograd.NewGradients(tape.Backend(), w)
	tape.Collect(grads)
	tape.Record(true)
	y := tape.Linear(x, w, nil, engine.None)
	tape.BackwardFrom(y, tensor.FromSlice(repeated(y.Len(), []float32{1}), y.Shape()...))
	if dx := gradient(tape, x); !slices.Equal(dx, repeated(6, []float32{8})) {
		t.Errorf("the gradient of x is %v, want 8 everywhere", dx)
	}
	if dw := numbers(grads.Of(w)); !slices.Equal(dw, repeated(12, []float32{2})) || grads.Of(x) != nil {
		t.Errorf("collected are %v of w and %v of x, want 2 everywhere and none", dw, grads.Of(x))
	}
	if other.Grad(x) != nil || other.Grad(w) != nil {
		t.Error("another tape has a gradient")
	}
	tape.DropGrads(x, w)
	if tape.Grad(x) != nil || !slices.Equal(numbers(grads.Of(w)), make([]float32, 12)) {
		t.Error("there is a gradient after DropGrads")
	}
}

// TestBuckets checks that buckets hold all gradients, undivided and in order.
func TestBuckets(t *testing.T) {
	var x ts
	for _, n := range []int{5, 1 << 20, 3, 1 << 19, 1 << 19, 1, 7} {
		x = append(x, tensor.Shaped(n))
	}
	grads := autograd.NewGradients(cpu.Backend{}, x...)
	for i, g := range grads.Each() {
		g.Fill(float32(i + 1))
	}
	next := 0
	for _, b := range grads.Buckets() {
		if b.First != next {
			t.Fatalf("a bucket begins with leaf %d, want %d", b.First, next)
		}
		rest := b.Gradients
		for ; next < b.End; next++ {
			for _, v := range numbers(rest[0]) {
				if v != float32(next+1) {
					t.Fatalf("leaf %d: found %v in its bucket, want %d", next, v, next+1)
				}
			}
			if end := address(rest[0]) + uintptr((x[next].Len()+15)/16*16*4); len(rest) > 1 && address(rest[1]) != end {
				t.Errorf("leaf %d begins at %#x, want %#x, beside the one before", next+1, address(rest[1]), end)
			}
			rest = rest[1:]
		}
		if len(rest) > 0 {
			t.Errorf("a bucket up to leaf %d has %d gradients more", b.End, len(rest))
		}
	}
	if n := len(grads.Buckets()); next != len(x) || n != 3 {
		t.Errorf("%d buckets have %d leaves, want 3 with %d", n, next, len(x))
	}
	if grads.Zero(); slices.ContainsFunc(numbers(grads.Of(x[1])), func(v float32) bool { return v != 0 }) {
		t.Error("a gradient is not zero after Zero")
	}
	if len(autograd.NewGradients(cpu.Backend{}).Buckets()) != 0 {
		t.Error("there is a bucket of nothing")
	}
}

// address returns the address of the elements of x.
func address(x *tensor.Tensor) uintptr { return uintptr(unsafe.Pointer(&x.Data()[0])) }

// TestMisuseOfGradients checks the panics for a leaf that is named twice, and for Gradients passed to a tape in the
// middle of a step.
func TestMisuseOfGradients(t *testing.T) {
	x := tensor.New(3)
	x.SetNeedsGrad(true)
	for want, f := range map[string]func(){
		"leaf 1, of shape (3), is leaf 0 too": func() { autograd.NewGradients(cpu.Backend{}, x, x) },
		"found 1 operations on the tape": func() {
			tape := autograd.NewTape(cpu.Backend{})
			tape.Record(true)
			tape.Add(x, x)
			tape.Collect(autograd.NewGradients(cpu.Backend{}, x))
		},
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, want) {
					t.Errorf("panic %q, want %q", msg, want)
				}
			}()
			f()
		}()
	}
}
