package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
)

// decodeCases measure decoding token by token at a position of the text, for H3-125M, a GPT and linear attention of its
// size, and Mamba-130M, at each precision of the weights. The fields are tokens_per_s of all sequences together;
// weight_gb_per_s, the speed at which weights are read; dram_gb_per_s, the speed of memory, measured in turn; and
// dram_share, their ratio. At long contexts there are also cache_gb_per_s, the speed at which keys and values are read,
// computed from the additional time of a token over one at the start of a text, measured in turn; and cache_share, its
// ratio to the speed of memory.
func decodeCases(shrink int) []Case {
	full, gpt := hybridAndGPT(shrink)
	linear := full
	linear.attention, linear.mixer = nil, "linear-attention"
	var cases []Case
	for _, c := range []struct {
		name           string
		build          func() (*model.Model, error)
		batch, context int
	}{
		{"H3-hybrid", full.build, 1, 1024}, {"H3-hybrid", full.build, 1, 8000}, {"H3-hybrid", full.build, 32, 1024},
		{"H3-hybrid", full.build, 1, 131072},
		{"GPT", gpt.build, 1, 1024}, {"GPT", gpt.build, 1, 8000},
		{"linear-attention", linear.build, 1, 1024},
		{"Mamba-130M", preset("mamba-130m", shrink), 1, 1024},
	} {
		past := c.context / shrink
		for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4} {
			cases = append(cases, Case{
				ID: Row{{"bench", "decode"}, {"model", c.name}, {"precision", p.String()},
					{"batch", float64(c.batch)}, {"context", float64(past)}},
				prepare: func(ctx context.Context) (trial, error) {
					m, err := packed(c.build, p)
					if err != nil {
						return trial{}, err
					}
					on := useDevice(ctx, m)
					s := generate.NewBatch(m, c.batch)
					for i := range c.batch {
						if err := fillPast(s.State(i), m, past); err != nil {
							return trial{}, err
						}
					}
					if on {
						return trial{runs: []func() error{decoding(s)}, fields: func(t []Timing) Row {
							return Row{{"tokens_per_s", rounded(float64(c.batch) / t[0].Wall)},
								{"weight_gb_per_s", rounded(float64(m.Bytes()) / t[0].Wall / 1e9)}}
						}}, nil
					}
					memory := newMemory(shrink)
					runs := []func() error{decoding(s), memory.read}
					start := generate.NewBatch(m, c.batch)
					if c.context > 1024 {
						runs = append(runs, decoding(start))
					}
					cache := float64(s.StateSize())
					return trial{runs: runs, fields: func(t []Timing) Row {
						speed, limit := float64(m.Bytes())/t[0].CPU/1e9, memory.gigabytes()/t[1].CPU
						row := Row{{"tokens_per_s", rounded(float64(c.batch) / t[0].CPU)},
							{"weight_gb_per_s", rounded(speed)},
							{"dram_gb_per_s", rounded(limit)}, {"dram_share", rounded(speed / limit)}}
						if len(t) > 2 && t[0].CPU > t[2].CPU {
							speed = (cache - float64(start.StateSize())) / (t[0].CPU - t[2].CPU) / 1e9
							row = append(row, Field{"cache_gb_per_s", rounded(speed)},
								Field{"cache_share", rounded(speed / limit)})
						}
						return row
					}}, nil
				},
			})
		}
	}
	return cases
}

// packed returns a model with its weights rounded to a precision.
func packed(build func() (*model.Model, error), p engine.Precision) (*model.Model, error) {
	m, err := build()
	if err == nil {
		err = m.Pack(p)
	}
	return m, err
}

// preset returns a function that builds a smaller preset.
func preset(name string, shrink int) func() (*model.Model, error) {
	return func() (*model.Model, error) { return smaller(name, shrink) }
}

// smaller returns a preset with random weights, and its width and vocabulary divided by shrink.
func smaller(preset string, shrink int) (*model.Model, error) {
	c, err := model.Preset(preset)
	if err != nil {
		return nil, err
	}
	c.DModel, c.VocabSize = c.DModel/shrink, cmp.Or(c.VocabSize/shrink, 256) // the tiny ones have none
	return initialized(c)
}

// decoding returns a function that feeds one more random token to each sequence.
func decoding(s *generate.Batch) func() error {
	ids := randomIDs(rand.New(rand.NewPCG(1, 7)), s.Len(), s.Model().Config.VocabSize)
	return func() error { return s.Feed(context.Background(), ids) }
}

// fillPast moves a state to a position: it fills the caches of attention layers with random keys and values. Recurrent
// states are unchanged, as the work does not depend on their values.
func fillPast(state *model.State, m *model.Model, past int) error {
	if past == 0 {
		return nil
	}
	heads := m.Config.NumHeads
	kv := []int{heads, past, m.Config.DModel / heads}
	x := uniform(rand.New(rand.NewPCG(1, 8)), past*m.Config.DModel)
	for i, b := range m.Blocks {
		if b.Kind != "attention" {
			continue
		}
		for _, name := range [2]string{"k", "v"} {
			if err := state.Restore(fmt.Sprintf("layers.%d.%s", i, name), kv, x); err != nil {
				return err
			}
		}
	}
	state.Position = past
	return nil
}
