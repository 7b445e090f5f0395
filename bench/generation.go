package bench

import (
	"context"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
)

// generationCases measure how fast H3-125M, a hybrid with one attention layer, and a GPT of the same size generate
// after contexts of several lengths: tokens/s of each, in turn, and the speedup of the hybrid. Compare the table of
// inference throughput in "Hungry Hungry Hippos", §6, which was measured at batch 64 on a GPU.
func generationCases(shrink int) []Case {
	hybrid, gpt := hybridAndGPT(shrink)
	var cases []Case
	for _, past := range []int{128, 512, 1024, 2048, 4096, 8192, 16384} {
		past := past / shrink
		for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4} {
			cases = append(cases, Case{
				ID: Row{{"bench", "generation"}, {"precision", p.String()}, {"context", float64(past)}},
				prepare: func(context.Context) (trial, error) {
					var runs []func() error
					for _, s := range []shape{hybrid, gpt} {
						m, err := packed(s.build, p)
						if err != nil {
							return trial{}, err
						}
						session := generate.NewBatch(m, 1)
						if err := fillPast(session.State(0), m, past); err != nil {
							return trial{}, err
						}
						runs = append(runs, decoding(session))
					}
					return trial{runs: runs, fields: func(t []Timing) Row {
						return Row{{"h3_tokens_per_s", rounded(1 / t[0].CPU)},
							{"gpt_tokens_per_s", rounded(1 / t[1].CPU)},
							{"h3_over_gpt", rounded(t[1].CPU / t[0].CPU)}}
					}}, nil
				},
			})
		}
	}
	return cases
}
