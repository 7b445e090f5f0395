package bench

import (
	"context"
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/mixer"
)

// sparseCases measure the forward pass of attention that skips work, by length, in turn with dense attention of the
// same width: fwd_us and dense_fwd_us per token, times_faster, and growth, the exponent of the time of a sequence from
// half its length to its length (2 for quadratic time, 1 for linear).
func sparseCases(shrink int) []Case {
	d := 256 / shrink
	var cases []Case
	for _, kind := range []mixer.Info{
		mixer.WindowAttentionInfo, mixer.BigBirdInfo, mixer.BucketAttentionInfo, mixer.SpAttenInfo,
	} {
		for l := 1024; l <= 16384; l *= 2 {
			l := l / shrink
			cases = append(cases, Case{
				ID: Row{{"bench", "sparse"}, {"mixer", kind.Name}, {"d", float64(d)}, {"l", float64(l)},
					{"precision", float32Only}},
				prepare: func(context.Context) (trial, error) {
					sparse, err := newMixer(kind, d, l)
					if err != nil {
						return trial{}, err
					}
					dense, err := newMixer(mixer.AttentionInfo, d, l)
					if err != nil {
						return trial{}, err
					}
					forward := func(m mixer.Mixer, l int) func() error { return mixerRuns(m, d, l, engine.Float32)[0] }
					runs := []func() error{forward(sparse, l), forward(sparse, l/2), forward(dense, l)}
					return trial{runs: runs, fields: func(t []Timing) Row {
						us := 1e6 / float64(l)
						return Row{{"fwd_us", rounded(t[0].CPU * us)},
							{"growth", rounded(math.Log2(t[0].CPU / t[1].CPU))},
							{"dense_fwd_us", rounded(t[2].CPU * us)}, {"times_faster", rounded(t[2].CPU / t[0].CPU)}}
					}}, nil
				},
			})
		}
	}
	return cases
}
