package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// trainConfigs holds the configurations of training: a on bytes, b wider and longer, c the published H3-125M.
var trainConfigs = map[string]struct {
	shape
	b, l   int
	models []string
}{
	"a": {shape{d: 256, layers: 6, vocab: 256, heads: 4, attention: []int{1, 4}}, 4, 1024,
		[]string{"H3", "H3-hybrid", "GPT"}},
	"b": {shape{d: 512, layers: 8, vocab: 256, heads: 8, attention: []int{1, 4}}, 2, 2048,
		[]string{"H3", "H3-hybrid", "GPT"}},
	"c": {shape{d: 768, layers: 12, vocab: 50257, heads: 12, attention: []int{6}}, 1, 1024, []string{"H3-hybrid"}},
}

// trainCases measure updates of language models on random tokens (forward, backward, clipping, AdamW): tokens_per_s by
// CPU time per thread, tokens_per_s_wall by wall time, and the memory of weights, gradients, moments and activations. A
// configuration with the suffix -lora trains an adapter of rank 16 for all products: c-lora over weights in float32,
// c-lora-int8 and c-lora-int4 over rounded ones.
func trainCases(args []string, shrink int) ([]Case, error) {
	names := slices.Sorted(maps.Keys(trainConfigs))
	if len(args) == 0 {
		return nil, fmt.Errorf("found no configuration, want some of %s", strings.Join(names, ", "))
	}
	var cases []Case
	for _, name := range args {
		of, adapter, isAdapter := strings.Cut(name, "-lora")
		c, ok := trainConfigs[of]
		base, known := adapterBases[adapter]
		if !ok || isAdapter && !known {
			return nil, fmt.Errorf("found the configuration %q, want one of %s, each also with -lora, "+
				"-lora-bf16, -lora-int8 or -lora-int4", name, strings.Join(names, ", "))
		}
		for i := range len(c.models) * len(precisions) {
			kind, precision := c.models[i/len(precisions)], precisions[i%len(precisions)]
			s, b, l := c.shape, c.b, c.l/shrink
			s.d, s.vocab = s.d/shrink, s.vocab/shrink
			s.attention = map[string][]int{"H3-hybrid": c.attention, "GPT": s.all()}[kind]
			build := s.build
			if isAdapter {
				build = func() (*model.Model, error) { return s.buildAdapter(base) }
			}
			cases = append(cases, Case{
				ID:      Row{{"bench", "train"}, {"config", name}, {"model", kind}, {"precision", precision.String()}},
				prepare: func(ctx context.Context) (trial, error) { return s.trainTrial(ctx, build, b, l, precision) },
			})
		}
	}
	return cases, nil
}

// adapterBases holds the precisions of the weights below an adapter, by the suffix of the configuration's name.
var adapterBases = map[string]engine.Precision{"": engine.Float32, "-bf16": engine.BF16, "-int8": engine.Int8,
	"-int4": engine.Int4}

// adapterRank is the rank of the trained adapters.
const adapterRank = 16

// buildAdapter returns the model with an adapter for all its products, and its weights in a precision.
func (s shape) buildAdapter(p engine.Precision) (*model.Model, error) {
	m, err := s.build()
	if err == nil && p != engine.Float32 {
		err = m.PackFrozen(p)
	}
	if err != nil {
		return nil, err
	}
	a, err := m.Adapt(model.AdapterShape{Rank: min(adapterRank, s.d), Alpha: 2 * adapterRank})
	if err != nil {
		return nil, err
	}
	a.Init(1)
	return m, nil
}

func (s shape) trainTrial(ctx context.Context, build func() (*model.Model, error), b, l int,
	p engine.Precision) (trial, error) {
	m, err := build()
	if err != nil {
		return trial{}, err
	}
	useDevice(ctx, m)
	params := 0
	m.Params("", func(_ string, q *nn.Param) { params += q.Len() })
	st := newStepper(m, b, l)
	st.tape.SetPrecision(p)
	tokens := float64(b * l)
	return trial{runs: []func() error{st.step}, fields: func(t []Timing) Row {
		return Row{
			{"params", float64(params)}, {"tokens_per_s", rounded(tokens / t[0].CPU)},
			{"tokens_per_s_wall", rounded(tokens / t[0].Wall)},
			{"matmul_gflops", rounded(3 * s.productFlops() * tokens / t[0].CPU / 1e9)},
			{"memory_mb", rounded(float64(st.bytes()) / 1e6)},
		}
	}}, nil
}

// tasks holds the vocabulary and the number of positions of the synthetic tasks of H3 (arXiv:2212.14052, §3.1), by the
// peer's names.
var tasks = map[string]struct{ vocab, l int }{"ind": {20, 31}, "ar10": {10, 22}, "ar20": {20, 42}}

// synthCases measure updates on batches of the size of the synthetic tasks: ms_per_step. The tokens are random.
func synthCases(args []string, _ int) ([]Case, error) {
	if len(args) == 0 {
		args = []string{"ind"}
	}
	var cases []Case
	for _, name := range args {
		task, ok := tasks[name]
		if !ok {
			return nil, fmt.Errorf("found the task %q, want one of %s", name,
				strings.Join(slices.Sorted(maps.Keys(tasks)), ", "))
		}
		for _, kind := range []string{"h3", "attn"} {
			s := shape{d: 32, layers: 2, vocab: task.vocab, heads: 1, embedDrop: 0.1}
			if kind == "attn" {
				s.attention, s.attnDrop = s.all(), 0.1
			}
			cases = append(cases, Case{
				ID: Row{{"bench", "synth"}, {"task", name}, {"model", kind}, {"precision", float32Only}},
				prepare: func(context.Context) (trial, error) {
					m, err := s.build()
					if err != nil {
						return trial{}, err
					}
					return trial{runs: []func() error{newStepper(m, 32, task.l).step}, fields: func(t []Timing) Row {
						return Row{{"ms_per_step", rounded(t[0].CPU * 1e3)}}
					}}, nil
				},
			})
		}
	}
	return cases, nil
}
