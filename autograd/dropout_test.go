package autograd_test

import (
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// splitMix returns the output of the generator SplitMix64 (Steele, Lea, Flood 2014) for state z.
func splitMix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// keptByDropout is the definition of dropout's mask. A row has a seed. Dropout number op of a tape is op odd steps from
// the seed, and element j of the row is j odd steps from the SplitMix64 of that. The SplitMix64 of the result looks
// random. The element is kept if its upper half is at least the share p of its range.
func keptByDropout(seed, op uint64, j int, p float64) bool {
	const step = 0xd1342543de82ef95
	return float64(splitMix(splitMix(seed+op*step)+uint64(j)*step)>>32) >= math.Floor(p*(1<<32))
}

// trained returns rows of the given lengths that train with the given seeds.
func trained(seeds []uint64, lengths ...int) *engine.Rows {
	r := engine.NewRows(lengths...)
	r.Train(seeds)
	return r
}

// TestDropoutMask checks that every row has the mask of the definition, for any number of cores. Kept elements are
// scaled to preserve the mean, backward uses the same mask, and a tape counts its dropouts from Reset on.
func TestDropoutMask(t *testing.T) {
	const d, p = 7, 0.2
	seeds, lengths := []uint64{3, 1 << 60, 4}, []int{2, 1<<13 + 5, 1} // several pieces of work, and a bit
	r := trained(seeds, lengths...)
	for engineName, tape := range tapes() {
		x := tensor.New(r.Total(), d)
		x.Fill(2)
		x.SetNeedsGrad(true)
		for range 2 {
			tape.Reset()
			tape.DropGrads(x)
			tape.Record(true)
			for op := uint64(1); op <= 2; op++ {
				y := tape.Dropout(x, p, r)
				out, dx := numbers(y), make([]float32, x.Len())
				tape.BackwardFrom(y, tensor.FromSlice(repeated(x.Len(), []float32{1}), y.Shape()...))
				tape.Grad(x).CopyTo(dx)
				tape.DropGrads(x)
				for i, seed := range seeds {
					for j := range lengths[i] * d {
						want, at := float32(0), r.From(i)*d+j
						if keptByDropout(seed, op, j, p) {
							want = 1 / (1 - p)
						}
						if out[at] != 2*want || dx[at] != want {
							t.Fatalf("%s: dropout %d, row %d, element %d: value %v, gradient %v, want %v, %v",
								engineName, op, i, j, out[at], dx[at], 2*want, want)
						}
					}
				}
			}
		}
		if tape.Dropout(x, 0, r) != x {
			t.Errorf("%s: dropout of nothing makes another tensor", engineName)
		}
		if tape.Dropout(x, p, engine.NewRows(lengths...)) != x {
			t.Errorf("%s: dropout outside training makes another tensor", engineName)
		}
	}
}

// TestDropoutKnowsNoNeighbors checks that the mask of an example depends only on its seed and on the number of the
// dropout. It is the same alone, with other examples, in another order of rows, and if the examples are divided between
// calls. Another seed or another dropout has another mask.
func TestDropoutKnowsNoNeighbors(t *testing.T) {
	const d, p, l = 5, 0.5, 40
	lengths := []int{l, 7, l, 1, l}
	// masks returns the masks of the examples in order, for dropout number op of the tape, all in one call.
	masks := func(op int, order ...int) map[int][]float32 {
		var own []int
		var seeds []uint64
		for _, i := range order {
			own, seeds = append(own, lengths[i]), append(seeds, uint64(100+i))
		}
		r := trained(seeds, own...)
		tape, x := autograd.NewTape(cpu.Backend{}), tensor.New(r.Total(), d)
		x.Fill(1)
		var y *tensor.Tensor
		for range op {
			y = tape.Dropout(x, p, r)
		}
		out := map[int][]float32{}
		for k, i := range order {
			out[i] = numbers(y)[r.From(k)*d:][:r.Len(k)*d]
		}
		return out
	}
	want := masks(1, 0, 1, 2, 3, 4)
	for what, calls := range map[string][][]int{
		"alone":               {{0}, {1}, {2}, {3}, {4}},
		"in another order":    {{3, 4, 1, 0, 2}},
		"in two calls":        {{0, 1}, {2, 3, 4}},
		"in two uneven calls": {{0, 1, 2, 3}, {4}},
		"beside some of them": {{4, 0}},
	} {
		for _, order := range calls {
			for i, got := range masks(1, order...) {
				if !slices.Equal(got, want[i]) {
					t.Errorf("%s: example %d has another mask", what, i)
				}
			}
		}
	}
	if slices.Equal(want[0], want[2]) || slices.Equal(want[0], want[4]) || slices.Equal(want[2], want[4]) {
		t.Error("two examples of other seeds have the same mask")
	}
	if slices.Equal(masks(2, 0)[0], want[0]) {
		t.Error("two dropouts of an example have the same mask")
	}
}
