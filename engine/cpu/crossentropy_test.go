package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestCrossEntropyGroups checks that a loss over more logits than are kept at a time, and its gradients, are the
// weighted means of those over fewer rows.
func TestCrossEntropyGroups(t *testing.T) {
	const d, v, rows, few = 3, logitsBudget/logitsRows + 7, 2*logitsRows + 61, 211 // groups of 256, 256 and 61 rows
	in := row{in: [][]int{{rows, d}, {v, d}}}.inputs([][]int{{rows, d}, {v, d}}, 8)
	rng := rand.New(rand.NewPCG(9, 9))
	targets, count := make([]int32, rows), 0
	for i := range targets {
		targets[i] = engine.Ignore
		if i%5 != 2 {
			targets[i] = rng.Int32N(v)
			count++
		}
	}
	x := tensors(in)
	tape := NewTape()
	tape.Record(true)
	loss := tape.LinearCrossEntropy(x[0], x[1], targets)
	got := float64(loss.Data()[0])
	tape.Backward(loss)

	want, dx, dw := 0.0, make([]float64, rows*d), make([]float64, v*d)
	for lo := 0; lo < rows; lo += few {
		hi, n := min(rows, lo+few), 0
		for _, id := range targets[lo:hi] {
			if id != engine.Ignore {
				n++
			}
		}
		tape.Reset()
		part := tensors([]array{{[]int{hi - lo, d}, in[0].x[lo*d : hi*d]}, in[1]})
		loss := tape.LinearCrossEntropy(part[0], part[1], targets[lo:hi])
		share := float64(n) / float64(count)
		want += share * float64(loss.Data()[0])
		tape.BackwardFrom(loss, []float32{float32(share)})
		for i, g := range tape.gradient(part[0]) {
			dx[lo*d+i] += float64(g)
		}
		for i, g := range tape.gradient(part[1]) {
			dw[i] += float64(g)
		}
	}
	if math.Abs(got-want) > 1e-6*want {
		t.Errorf("loss %v, want %v", got, want)
	}
	compare(t, "gradient of x", tape.gradient(x[0]), dx, 1e-5)
	compare(t, "gradient of w", tape.gradient(x[1]), dw, 1e-5)
}

// TestCrossEntropyWithoutTargets checks that without targets the loss and the gradients are zero.
func TestCrossEntropyWithoutTargets(t *testing.T) {
	x, w := filled(1, 2, 4), filled(1, 5, 4)
	tape := NewTape()
	tape.Record(true)
	loss := tape.LinearCrossEntropy(x, w, []int32{engine.Ignore, engine.Ignore})
	if v := loss.Data()[0]; v != 0 {
		t.Errorf("loss %v, want 0", v)
	}
	tape.Backward(loss)
	for _, in := range []*tensor.Tensor{x, w} {
		for _, g := range tape.gradient(in) {
			if g != 0 {
				t.Errorf("gradient %v, want 0", g)
			}
		}
	}
}

// TestLogitsAreKeptWhereThatTakesNoMoreMemory checks for how many rows all logits are kept. The weights are as large as
// the logits of d rows, so the number is slightly larger than d.
func TestLogitsAreKeptWhereThatTakesNoMoreMemory(t *testing.T) {
	const d, v = 768, 50264
	for rows, whole := range map[int]bool{1024: true, 1032: true, 1048: false, 4096: false} {
		group, floats := recordedLoss(rows, d, v, false)
		if want := map[bool]int{true: rows, false: logitsRows}[whole]; group != want {
			t.Errorf("%d rows: the logits of %d are kept, want %d", rows, group, want)
		}
		if most := logitsRows*v + (rows+v)*d + rows; floats > most {
			t.Errorf("%d rows: %d floats are kept, want %d at most", rows, floats, most)
		}
		group, floats = recordedLoss(rows, d, v, true)
		if most := logitsRows*v + rows*d + rows; group != logitsRows || floats > most {
			t.Errorf("%d rows, frozen: %d floats of the logits of %d rows, want %d at most", rows, floats, group, most)
		}
	}
}
