package action

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestShortWaysAreTheLongOnes: what is left out where a last product is of zeros, or is gone back through alone, does
// not change a bit, whatever the mixer.
func TestShortWaysAreTheLongOnes(t *testing.T) {
	short := 0
	for _, all := range entries {
		for _, entry := range all {
			a, err := Of(autograd.NewTape(cpu.Backend{}), newMixer(t, entry), input(most))
			if err != nil {
				t.Fatalf("%s: %v", entry, err)
			}
			zeros := func(x []float32, _ int) []float32 { return make([]float32, len(x)) }
			if !slices.Equal(a.Constant(), a.replay(a.steps, a.y, zeros)) {
				t.Errorf("%s: found another b, want that of all steps", entry)
			}
			from := seeds{a.y: input(most).Floats()}
			steps, tops, bare := a.upper(from)
			leaves := append(list(nil), bare...)
			for _, s := range tops {
				leaves = append(leaves, s.out[0])
			}
			some, to := throughLast(steps, from)
			if len(some) < len(steps) {
				short++
			}
			want := a.pull(steps, from, leaves)
			for i, got := range a.pull(some, to, leaves) {
				if !slices.Equal(got, want[i]) {
					t.Errorf("%s: leaf %d has other derivatives than by all steps", entry, i)
				}
			}
		}
	}
	if short == 0 {
		t.Error("found no mixer that ends in a product, want some")
	}
}

// TestConstantOfAProductOfMore: where the last product is not of zeros, it is of what is there.
func TestConstantOfAProductOfMore(t *testing.T) {
	a, err := Of(autograd.NewTape(cpu.Backend{}), newMixer(t, "h3"), input(most))
	if err != nil {
		t.Fatal(err)
	}
	last := a.steps[len(a.steps)-1]
	before := slices.Clone(a.steps[:len(a.steps)-1])
	one := *before[len(before)-1]
	run := one.run
	one.run = func(in []*tensor.Tensor) []*tensor.Tensor { // 1 more
		y := run(in)[0]
		x := y.Floats()
		for i := range x {
			x[i]++
		}
		return list{tensor.FromSlice(x, y.Shape()...)}
	}
	without := a.Constant()
	a.steps = append(append(before[:len(before)-1:len(before)-1], &one), last)
	with := a.Constant()
	sums := last.run(list{tensor.FromSlice(slices.Repeat([]float32{1}, width), 1, width)})[0].Floats()
	for i, v := range with {
		if want := sums[i%width]; v != want || v == without[i] {
			t.Fatalf("found b %g at %d, want %g", v, i, want)
		}
	}
}
