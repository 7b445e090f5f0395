package text

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TuneOptions say how Tune trains.
type TuneOptions struct {
	Steps     int // updates
	BatchSize int // sequences of an update
	SeqLen    int // tokens of a sequence
	LR        float64
	Seed      uint64
}

// Tuned is what Tune has found.
type Tuned struct {
	Model         *model.Model // the copy that was trained
	Before, After float64      // nats per token of the validation tokens
}

// Tune trains a copy of a model on tokens for some updates, in memory: nothing is written, and m stays as it is.
// Gradients are clipped to norm 1, and the learning rate rises for a tenth of the updates and falls along a cosine.
// Whether the copy is better is for the caller to say, by the losses on tokens that it was not trained on. A loss or
// gradient that is not finite is a train.NonFiniteError. Memory is that of the copy, its gradients and moments, and of
// the activations of an update.
func Tune(ctx context.Context, m *model.Model, tok tokenizer.Tokenizer, tokens, valid []int32,
	o TuneOptions) (*Tuned, error) {
	cfg := tiny()
	cfg.Model, cfg.Seed = m.Config, o.Seed
	cfg.Train.Steps, cfg.Train.BatchSize, cfg.Train.SeqLen = o.Steps, o.BatchSize, o.SeqLen
	cfg.Optim.LR, cfg.Optim.SSMLR, cfg.Optim.Warmup = o.LR, 0, o.Steps/10
	d := &Dataset{Tokenizer: tok}
	var err error
	if d.Train, err = data.FromIDs(tokens, m.Config.PaddedVocab()); err != nil {
		return nil, err
	}
	if d.Valid, err = data.FromIDs(valid, m.Config.PaddedVocab()); err != nil {
		return nil, err
	}
	work, err := newTrainer(cfg, d, func(to *model.Model) error { return copyWeights(to, m) })
	if err != nil {
		return nil, err
	}
	loop, err := work.Begin()
	if err != nil {
		return nil, err
	}
	r := &Tuned{Model: work.Model}
	tape := work.NewTape()
	if r.Before, err = work.Evaluate(ctx, tape, 0); err != nil {
		return nil, err
	}
	for range o.Steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if _, _, err := loop.Step(); err != nil {
			return nil, err
		}
	}
	if r.After, err = work.Evaluate(ctx, tape, 0); err != nil {
		return nil, err
	}
	if math.IsNaN(r.After) {
		r.After = math.Inf(1)
	}
	return r, nil
}

// Trainable returns an error if Tune cannot train a model.
func Trainable(m *model.Model) (err error) {
	m.Params("", func(name string, p *nn.Param) {
		if p.Packed() != nil && err == nil {
			err = fmt.Errorf("found %s in fewer bits than float32, want a model in float32 to train", name)
		}
	})
	if err == nil && m.Adapter() != nil {
		err = errors.New("found a model with an adapter, want one that is merged")
	}
	return err
}

// copyWeights gives a new model the weights of another of its shape.
func copyWeights(to, from *model.Model) error {
	if err := Trainable(from); err != nil {
		return err
	}
	var all [][]float32
	from.Params("", func(_ string, p *nn.Param) {
		x := make([]float32, p.Len())
		p.CopyTo(x)
		all = append(all, x)
	})
	i := 0
	to.Params("", func(_ string, p *nn.Param) {
		p.CopyFrom(all[i])
		i++
	})
	return nil
}
