package bench

import (
	"context"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/session"
)

// chunk measures reading n tokens in pieces of the model's chunk and of other sizes, in turn.
func (v served) chunk(n int) Case {
	return Case{ID: v.id("chunk", n), prepare: func(ctx context.Context) (trial, error) {
		m, err := packed(v.build, engine.Int8)
		if err != nil {
			return trial{}, err
		}
		ids := randomIDs(rand.New(rand.NewPCG(8, 8)), n, m.Config.VocabSize)
		reads := func(chunk int) func() error {
			return func() error {
				b := generate.NewBatch(m, 1)
				b.Chunk = chunk
				return b.Feed(ctx, ids)
			}
		}
		own := session.Chunk(m)
		return trial{
			runs: []func() error{reads(own), reads(64), reads(128), reads(256)},
			fields: func(t []Timing) Row {
				return Row{{"chunk", float64(own)}, {"tokens_per_s", rounded(float64(n) / t[0].CPU)},
					{"cost_64", rounded(t[1].CPU / t[0].CPU)}, {"cost_128", rounded(t[2].CPU / t[0].CPU)},
					{"cost_256", rounded(t[3].CPU / t[0].CPU)}}
			},
		}, nil
	}}
}
