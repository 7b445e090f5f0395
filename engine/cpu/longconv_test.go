package cpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestGatesAreProducts checks that a gated convolution and its gradients, written or added, equal those of a
// convolution of products, times a gate. The number of channels is not a multiple of 16.
func TestGatesAreProducts(t *testing.T) {
	const l, d = directUpTo + 5, 40
	r := row{}
	for gates := range 4 {
		q, k := gates&1 > 0, gates&2 > 0
		gated := func(t *Tape, in ts, r *engine.Rows) *tensor.Tensor {
			g := engine.Gates{V: in[0]}
			if q {
				g.Q = in[3]
			}
			if k {
				g.K = in[4]
			}
			return t.GatedLongConv(g, in[1], in[2], r)
		}
		products := func(t *Tape, in ts, r *engine.Rows) *tensor.Tensor {
			u := in[0]
			if k {
				u = t.Mul(u, in[4])
			}
			y := t.LongConv(u, in[1], in[2], r)
			if q {
				y = t.Mul(y, in[3])
			}
			return y
		}
		inputs := r.inputs([][]int{{2 * l, d}, {l, d}, {d}, {2 * l, d}, {2 * l, d}}, 3)
		dy := r.inputs([][]int{{2 * l, d}}, 4)[0]
		var found [2][][]float32
		for i, f := range []func(*Tape, ts, *engine.Rows) *tensor.Tensor{gated, products} {
			tape, in := NewTape(), tensors(inputs)
			tape.Record(true)
			for range 2 {
				y := f(tape, in, engine.EqualRows(2, l))
				found[i] = append(found[i], slices.Clone(y.Data()))
				tape.BackwardFrom(y, tensors([]array{dy})[0].Data())
				for _, x := range in {
					found[i] = append(found[i], slices.Clone(tape.gradient(x)))
				}
				tape.Reset()
			}
		}
		for i, want := range found[1] {
			compare(t, fmt.Sprintf("gates %d, result %d", gates, i), found[0][i], doubles(want), 1e-5)
		}
	}
}

// doubles returns x in float64.
func doubles(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// TestLongConvOfALeaf checks that gradients that are not wanted are not computed.
func TestLongConvOfALeaf(t *testing.T) {
	for i, name := range []string{"u", "k", "D", "u, transformed", "k, transformed", "D, transformed"} {
		tape := NewTape()
		tape.Record(true)
		l := 9
		if i > 2 {
			l, i = directUpTo+1, i-3
		}
		in := tensors(row{}.inputs([][]int{{2 * l, 20}, {l, 20}, {20}}, 3))
		for j, x := range in {
			x.SetNeedsGrad(j == i)
		}
		y := tape.LongConv(in[0], in[1], in[2], engine.EqualRows(2, l))
		tape.BackwardFrom(y, make([]float32, y.Len()))
		for j, x := range in {
			if (tape.gradient(x) != nil) != (j == i) {
				t.Errorf("only %s wants a gradient: input %d has one: %v", name, j, tape.gradient(x) != nil)
			}
		}
	}
}
