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

// TuneOptions define how Tune trains.
type TuneOptions struct {
	Steps     int // updates
	BatchSize int // sequences of an update
	SeqLen    int // tokens of a sequence
	LR        float64
	Seed      uint64
}

// Tuned is the result of Tune.
type Tuned struct {
	Model         *model.Model // the trained copy
	Before, After float64      // loss on the validation tokens, in nats per token
}

// Tune trains a copy of m on tokens for o.Steps updates, in memory: it writes no files and does not change m. Gradients
// are clipped to norm 1. The learning rate rises for a tenth of the updates and then falls along a cosine. The caller
// decides whether the copy is better, by the losses on the tokens in valid. A loss or gradient that is not finite is a
// *train.NonFiniteError. Tune needs memory for the copy, its gradients and moments, and the activations of an update.
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

// copyWeights copies the weights of a model into a new one of the same shape.
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
