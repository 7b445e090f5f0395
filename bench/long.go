package bench

import (
	"context"
	"math/rand/v2"
	"runtime/debug"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train/text"
)

// longCases measure updates on one sequence of bytes by its length, for one layer of width 64: at once, as far as that
// is possible, and in chunks with exact and with stopped gradients. activation_mb is the memory in addition to weights,
// gradients and moments: activations and the states between chunks. peak_mb is the peak of the whole process, with the
// tokens of the text and the buffers of the engine.
func longCases(shrink int) []Case {
	const layers, chunk, mostAtOnce = 1, 16 << 10, 64 << 10
	d := max(8, 64/shrink)
	var cases []Case
	for _, mixer := range []string{"h3", "mamba", "s4d"} {
		for e := 10; e <= 20; e += 2 {
			for _, how := range []string{"whole", "exact", "stopped"} {
				l := 1 << e
				if how == "whole" && l > mostAtOnce || how != "whole" && l <= chunk/4 {
					continue // too long to be held, or shorter than a chunk
				}
				l /= shrink
				cases = append(cases, Case{
					ID: Row{{"bench", "long"}, {"mixer", mixer}, {"mode", how}, {"d", float64(d)}, {"l", float64(l)},
						{"precision", float32Only}},
					prepare: func(context.Context) (trial, error) {
						c, err := text.Preset("tiny")
						if err != nil {
							return trial{}, err
						}
						c.Model.DModel, c.Model.NLayer, c.Model.AttnIdx, c.Model.Mixer = d, layers, nil, mixer
						c.Train.SeqLen, c.Train.BatchSize, c.Train.Shards = l, 1, 1
						if how != "whole" {
							c.Train.Chunk, c.Train.Gradients = chunk/shrink, how
						}
						return longTrial(c)
					},
				})
			}
		}
	}
	return cases
}

// longOnce is the length from which on a single update is measured, without a warm-up: it has many equal chunks.
const longOnce = 1 << 18

func longTrial(c text.Config) (trial, error) {
	debug.FreeOSMemory() // memory of the previous case
	status.ResetPeakRSS()
	tok := tokenizer.Bytes()
	ids := randomIDs(rand.New(rand.NewPCG(1, 9)), c.Train.SeqLen+1, tok.VocabSize())
	tokens, err := data.FromIDs(ids, tok.VocabSize())
	if err != nil {
		return trial{}, err
	}
	tr, err := text.New(c, &text.Dataset{Tokenizer: tok, Train: tokens, Valid: tokens.Slice(0, 2)})
	if err != nil {
		return trial{}, err
	}
	loop, err := tr.Begin()
	if err != nil {
		return trial{}, err
	}
	update := func() error {
		_, _, err := loop.Step()
		return err
	}
	return trial{runs: []func() error{update}, long: c.Train.SeqLen >= longOnce, fields: func(t []Timing) Row {
		return Row{{"tokens_per_s", rounded(float64(c.Train.SeqLen) / t[0].CPU)},
			{"activation_mb", rounded(float64(loop.Tape().Bytes()+tr.StateBytes()) / 1e6)},
			{"peak_mb", rounded(float64(status.PeakRSS()) / 1e6)}}
	}}, nil
}
