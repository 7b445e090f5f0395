package bench

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// sparseCases measure the forward pass of attention that skips work, by length, in turn with dense attention of the
// same width: fwd_us and dense_fwd_us per token, times_faster, and growth, the exponent of the time from half a
// sequence's length to its length (2 for quadratic time, 1 for linear). For spatten they also report reads, the share
// of the keys read by dense attention that it reads. In spatten-cascade, layers prune together, and each keeps less
// than the one before.
func sparseCases(shrink int) []Case {
	d := 256 / shrink
	var cases []Case
	for _, kind := range []mixer.Info{
		mixer.WindowAttentionInfo, mixer.BigBirdInfo, mixer.BucketAttentionInfo, mixer.SpAttenInfo,
		{Name: "spatten-cascade", Builder: mixer.Builder{New: newSpAttens}},
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
					if all, ok := sparse.(stack); ok {
						dense = repeated(dense, len(all.layers))
					}
					forward := func(m mixer.Mixer, l int) func() error { return mixerRuns(m, d, l, engine.Float32)[0] }
					runs := []func() error{forward(sparse, l), forward(sparse, l/2), forward(dense, l)}
					reads, err := readsOf(sparse, runs[0])
					return trial{runs: runs, fields: func(t []Timing) Row {
						us := 1e6 / float64(l)
						return append(Row{{"fwd_us", rounded(t[0].CPU * us)},
							{"growth", rounded(math.Log2(t[0].CPU / t[1].CPU))},
							{"dense_fwd_us", rounded(t[2].CPU * us)}, {"times_faster", rounded(t[2].CPU / t[0].CPU)}},
							reads...)
					}}, err
				},
			})
		}
	}
	return cases
}

// readsOf returns the share of the keys that m reads in a run, or nothing if m does not count them.
func readsOf(m mixer.Mixer, run func() error) (Row, error) {
	all, ok := m.(stack)
	if !ok {
		all.layers = []mixer.Mixer{m}
	}
	counts := &engine.SpAttenCounts{}
	for _, m := range all.layers {
		if !mixer.CountReads(m, counts) {
			return nil, nil
		}
		defer mixer.CountReads(m, nil)
	}
	err := run()
	return Row{{"reads", rounded(float64(counts.Keys.Load()) / float64(counts.All.Load()))}}, err
}

// stack consists of layers that hand on what they prune to the next ones.
type stack struct {
	mixer.Mixer // the first layer
	layers      []mixer.Mixer
}

func repeated(m mixer.Mixer, layers int) stack {
	return stack{m, slices.Repeat([]mixer.Mixer{m}, layers)}
}

// newSpAttens returns four layers, which leave 192, 144, 96 and 48 tokens, and in the end 4, 3, 2 and 1 heads.
func newSpAttens(c mixer.Config) (mixer.Mixer, error) {
	var all stack
	for left := 4; left > 0; left-- {
		c.Options = mixer.Options{"cascade": "true", "keep": strconv.Itoa(48 * left), "keep_heads": strconv.Itoa(left)}
		m, err := mixer.SpAttenInfo.New(c)
		if err != nil {
			return nil, err
		}
		all.layers, c.Earlier = append(all.layers, m), append(c.Earlier, "spatten")
	}
	all.Mixer = all.layers[0]
	return all, nil
}

func (s stack) Forward(t *autograd.Tape, u *tensor.Tensor, r *mixer.Rows) *tensor.Tensor {
	with := *r
	with.Handed = &mixer.Handed{}
	for _, m := range s.layers {
		u = m.Forward(t, u, &with)
	}
	return u
}

func (s stack) Params(prefix string, visit nn.Visitor) {
	for i, m := range s.layers {
		m.Params(prefix+strconv.Itoa(i)+".", visit)
	}
}
