package cpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestBothWaysIsTwoConvolutions checks that BothWays and its gradients, written or added, are those of two
// convolutions, one of them of the reversed sequence, at every length and around whole lanes.
func TestBothWaysIsTwoConvolutions(t *testing.T) {
	two := func(t *Tape, in ts, r *engine.Rows) *tensor.Tensor {
		none := tensor.New(in[3].Len())
		ahead := t.Reverse(t.LongConv(t.Reverse(in[0], 0, r), in[2], none, r), 1, r)
		return t.Add(t.LongConv(in[0], in[1], in[3], r), ahead)
	}
	one := func(t *Tape, in ts, r *engine.Rows) *tensor.Tensor { return t.BothWays(in[0], in[1], in[2], in[3], r) }
	lengths := []int{63, 64, 65, 100, 1000, 1023, 1024, 1025, 2500}
	for l := 2; l < 50; l++ {
		lengths = append(lengths, l)
	}
	for i, l := range lengths {
		b, d := 1+i%6, []int{16, 17, 40}[i%3]
		shapes := [][]int{{b * l, d}, {l, d}, {l, d}, {d}}
		inputs, dy := row{}.inputs(shapes, 3), tensors(row{}.inputs(shapes[:1], 4))[0]
		var found [2][][]float32
		for j, f := range []func(*Tape, ts, *engine.Rows) *tensor.Tensor{one, two} {
			tape, in := NewTape(), tensors(inputs)
			tape.Record(true)
			for range 2 {
				y := f(tape, in, engine.EqualRows(b, l))
				found[j] = append(found[j], slices.Clone(y.Data()))
				tape.BackwardFrom(y, dy.Data())
				for _, x := range in {
					found[j] = append(found[j], slices.Clone(tape.gradient(x)))
				}
				tape.Reset()
			}
		}
		for j, want := range found[1] {
			compare(t, fmt.Sprintf("l %d, result %d", l, j), found[0][j], doubles(want), 1e-5)
		}
	}
}

// TestBothWaysOfALeaf checks that gradients that are not wanted are not computed, and that the others do not depend on
// that.
func TestBothWaysOfALeaf(t *testing.T) {
	inputs := row{}.inputs([][]int{{140, 20}, {70, 20}, {70, 20}, {20}}, 3)
	grads := func(wanted func(j int) bool) (out [4][]float32) {
		tape, in := NewTape(), tensors(inputs)
		tape.Record(true)
		for j, x := range in {
			x.SetNeedsGrad(wanted(j))
		}
		y := tape.BothWays(in[0], in[1], in[2], in[3], engine.EqualRows(2, 70))
		dy := make([]float32, y.Len())
		for i := range dy {
			dy[i] = float32(i % 7)
		}
		tape.BackwardFrom(y, dy)
		for j, x := range in {
			out[j] = tape.gradient(x)
		}
		return out
	}
	all := grads(func(int) bool { return true })
	for i := range all {
		for j, g := range grads(func(j int) bool { return i == j }) {
			if i == j && !slices.Equal(g, all[j]) || i != j && g != nil {
				t.Errorf("only input %d wants a gradient: that of input %d is wrong", i, j)
			}
		}
	}
}
