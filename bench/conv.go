package bench

import (
	"context"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// convSizes holds the batches and channels of the long convolution: those measured for PyTorch, and for FFTW.
var convSizes = []struct{ b, d int }{{1, 256}, {8, 64}, {1, 16}}

// convCases measure the long convolution y = k∗u + D u, in ns for each element of u (b, l, d): forward, and forward
// with backward to u, k and D. As for PyTorch, the kernel's transform is included, and k has the layout in which the
// systems that generate kernels leave it for the transform: in tiles of 16 channels here, channel by channel there.
func convCases(shrink int) []Case {
	var cases []Case
	for _, l := range []int{1024, 4096, 16384, 65536} {
		for _, size := range convSizes {
			b, d, l := size.b, max(1, size.d/shrink), l/shrink
			cases = append(cases, Case{
				ID: Row{{"bench", "conv"}, {"b", float64(b)}, {"d", float64(d)}, {"l", float64(l)},
					{"precision", float32Only}},
				prepare: func(context.Context) (trial, error) { return convTrial(b, d, l), nil },
			})
		}
	}
	return cases
}

func convTrial(b, d, l int) trial {
	u, k, skip := random(b*l, d), random((d+15)/16, l, 16), random(d)
	rows := engine.EqualRows(b, l)
	runs := forwardBackward([]*tensor.Tensor{u, k, skip}, func(t *autograd.Tape) *tensor.Tensor {
		return t.LongConv(u, k, skip, rows)
	})
	return trial{runs: runs, fields: forwardBackwardFields("ns", 1e9/float64(b*d*l))}
}
