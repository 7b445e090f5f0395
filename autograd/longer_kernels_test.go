package autograd_test

import (
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestLongerKernelsChangeNoBit checks that the number of taps beyond those that a row sees does not matter. If kernels
// are made for all rows of a call, or cached, this number depends on other rows and on earlier calls.
func TestLongerKernelsChangeNoBit(t *testing.T) {
	const d, past = 21, 130
	type conv func(t *autograd.Tape, in ts, r *engine.Rows) *tensor.Tensor
	behind := func(t *autograd.Tape, in ts, r *engine.Rows) *tensor.Tensor {
		c := &engine.ConvCache{U: in[0], Len: past, Window: 4000}
		return t.CachedLongConv(in[1], in[2], in[4], r, []*engine.ConvCache{c})
	}
	for name, f := range map[string]struct {
		conv
		least int // taps beyond those that a row sees
	}{
		"LongConv": {func(t *autograd.Tape, in ts, r *engine.Rows) *tensor.Tensor {
			return t.LongConv(in[1], in[2], in[4], r)
		}, 0},
		"BothWays": {func(t *autograd.Tape, in ts, r *engine.Rows) *tensor.Tensor {
			return t.BothWays(in[1], in[2], in[3], in[4], r)
		}, 0},
		"CachedLongConv": {behind, past + autograd.NewTape(cpu.Backend{}).Ahead()},
	} {
		for _, l := range []int{1, 7, 90, 130, 600} {
			in := (&row{}).random([][]int{{past, d}, {l, d}, {4000, d}, {4000, d}, {d}}, 2)
			run := func(taps int, record bool) []float32 {
				tape := autograd.NewTape(cpu.Backend{})
				tape.Record(record)
				cut := append([][]float64(nil), in...)
				cut[2], cut[3] = in[2][:taps*d], in[3][:taps*d]
				x := (&row{}).tensors([][]int{{past, d}, {l, d}, {taps, d}, {taps, d}, {d}}, cut)
				return numbers(f.conv(tape, x, engine.NewRows(l)))
			}
			for _, record := range []bool{false, true} {
				want := run(l+f.least, record)
				for _, taps := range []int{l + f.least + 1, l + f.least + 40, 4000} {
					if !same([][]float32{want}, [][]float32{run(taps, record)}) {
						t.Errorf("%s of %d positions, recording %v: other bits with %d taps", name, l, record, taps)
					}
				}
			}
		}
	}
}
