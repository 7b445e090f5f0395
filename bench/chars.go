package bench

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/train/text"
)

// charsSteps is the length of the training whose start charsCases measure. It is evaluated every charsEvery updates.
const charsSteps, charsEvery = 600, 50

// charsCases measure training on the characters of a text: s_to_loss is the time until a tiny H3 hybrid predicts the
// last tenth of the text with a loss below the given one, in nats per character. The time includes evaluations. They
// use the first part of that tenth, and all of it once the loss is low enough. The default loss, 1.886, is that of
// nanoGPT's recipe for a CPU on the characters of Shakespeare.
func charsCases(args []string, shrink int) ([]Case, error) {
	if len(args) == 0 || len(args) > 2 {
		return nil, fmt.Errorf("found %d arguments, want a file of text and, unless it is 1.886, a loss to reach",
			len(args))
	}
	loss := 1.886
	if len(args) == 2 {
		var err error
		if loss, err = strconv.ParseFloat(args[1], 64); err != nil || !(loss > 0) {
			return nil, fmt.Errorf("found the loss %q, want a positive number", args[1])
		}
	}
	var cases []Case
	for _, precision := range precisions {
		cases = append(cases, Case{
			ID: Row{{"bench", "chars"}, {"loss", loss}, {"precision", precision.String()}},
			prepare: func(ctx context.Context) (trial, error) {
				return charsTrial(ctx, args[0], loss, shrink, precision)
			},
		})
	}
	return cases, nil
}

func charsTrial(ctx context.Context, file string, loss float64, shrink int, p engine.Precision) (trial, error) {
	cfg, err := text.Preset("tiny")
	if err != nil {
		return trial{}, err
	}
	cfg.Data, cfg.Cache, cfg.Tokenizer, cfg.Precision = []string{file}, "none", "chars", p.String()
	cfg.Train.Steps, cfg.Train.SeqLen = charsSteps, cfg.Train.SeqLen/shrink
	set, err := cfg.OpenData(ctx, nil)
	if err != nil {
		return trial{}, err
	}
	var steps int
	var reached float64
	return trial{long: true, runs: []func() error{func() error {
		tr, err := text.New(cfg, set)
		if err != nil {
			return err
		}
		loop, err := tr.Begin()
		if err != nil {
			return err
		}
		for steps = 0; steps < charsSteps; {
			if _, _, err := loop.Step(); err != nil {
				return err
			}
			if steps = loop.Steps(); steps%charsEvery > 0 {
				continue
			}
			if reached, err = tr.Evaluate(ctx, loop.Tape(), cfg.Train.EvalTokens); err == nil && reached < loss {
				reached, err = tr.Evaluate(ctx, loop.Tape(), 0)
			}
			if err != nil || reached < loss {
				return err
			}
		}
		return fmt.Errorf("found a validation loss of %.4g after %d updates, want less than %v", reached, steps, loss)
	}}, fields: func(t []Timing) Row {
		return Row{{"valid_loss", rounded(reached)}, {"steps", float64(steps)}, {"s_to_loss", rounded(t[0].CPU)},
			{"s_to_loss_wall", rounded(t[0].Wall)}}
	}}, nil
}
