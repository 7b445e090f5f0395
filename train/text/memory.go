package text

import (
	"fmt"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// countParams counts the parameters of a shape.
func (c *Config) countParams(shape model.Config) (train.ParamCount, error) {
	m, err := model.New(shape)
	if err != nil {
		return train.ParamCount{}, err
	}
	n, err := c.freeze(m)
	machines := c.members
	if c.Team != nil {
		machines = c.Team.Size()
	}
	n.More = c.Train.islandBytes(n.Trained, c.Team != nil) - c.Train.spared(n.Trained, machines)
	return n, err
}

// spared is the memory of moments that a machine of some does not keep, as each part is on two.
func (t *Loop) spared(trained, machines int) int {
	if t.Moments != momentsSplit || machines < 3 {
		return 0
	}
	return 8 * trained / machines * (machines - 2)
}

// checkMemory returns a *MemoryError if a run needs more memory than there is. vocab is the size of the tokenizer's
// vocabulary. Only runs that may come near the limit are measured, by small updates.
func (c *Config) checkMemory(vocab int) error {
	free, known := train.FreeMemory(c.Device)
	switch {
	case !known || c.Memory == train.MemoryIgnore:
		return nil
	case c.Device == nil:
		return c.checkRoom(free, vocab)
	}
	params, err := c.countParams(c.shape(vocab)) // activations are not known beforehand: the step says what it lacks
	if err != nil {
		return err
	}
	params.More = 0 // on the host
	return train.WeightsFit(params, c.Train.Shards, free)
}

// FitsDevice returns a *MemoryError if weights, gradients and moments of a run need more memory than its device has.
func (c *Config) FitsDevice() error { return c.checkMemory(c.likelyVocab()) }

// checkRoom is checkMemory where so much is free.
func (c *Config) checkRoom(free status.Memory, vocab int) error {
	shape := c.shape(vocab)
	params, err := c.countParams(shape)
	if err != nil {
		return err
	}
	if err := train.WeightsFit(params, c.Train.Shards, free); err != nil {
		return err
	}
	plan, err := shape.Plan()
	if err != nil {
		return err
	}
	// Updates take 22 to 27 numbers of a layer's width for each token of a shard (H3, Mamba, attention). Some
	// mixers take more.
	const most = 120
	tokens := float64(c.Train.BatchSize) * float64(c.Train.held())
	states := c.statesBetween(shape)
	rough := float64(states) + 4*most*tokens*float64(len(plan))*float64(shape.DModel+shape.Inner()/4)
	if rough+float64(params.Bytes(c.Train.Shards)) < float64(free.Bytes) {
		return nil
	}
	run, err := c.probes(shape)
	if err != nil {
		return err
	}
	bytes, err := run.activations()
	if err != nil {
		return err
	}
	return c.fitsIn(free, params, bytes+states)
}

// fitsIn returns a *MemoryError if parameters in training and the activations of a shard are more than there is.
func (c *Config) fitsIn(free status.Memory, params train.ParamCount, activations int) error {
	weights := params.Bytes(c.Train.Shards)
	if weights+activations <= int(free.Bytes) {
		return nil
	}
	e := &train.MemoryError{Need: weights + activations, Weights: weights, Activations: activations, Free: free}
	if batch, shards := c.smaller(int(free.Bytes), params, activations); batch > 0 {
		e.Advice = fmt.Sprintf("train.batch_size=%d with train.shards=%d fits", batch, shards)
	} else if weights >= int(free.Bytes) {
		e.Advice = "a smaller model.d_model or fewer layers need less"
	} else {
		e.Advice = "a smaller train.seq_len, model.d_model or fewer layers need less"
	}
	return e
}

// smaller cuts an update into more shards of fewer sequences, as many in all, so that it takes no more bytes; 0 where
// that cannot be.
func (c *Config) smaller(bytes int, params train.ParamCount, activations int) (batch, shards int) {
	each := float64(activations) / float64(c.Train.BatchSize)
	for batch = c.Train.BatchSize; batch > 0; batch-- {
		shards = c.Train.sequences() / batch
		if shards%max(1, c.Train.Islands) > 0 {
			continue
		}
		if shards*batch == c.Train.sequences() && float64(params.Bytes(shards))+each*float64(batch) <= float64(bytes) {
			return batch, shards
		}
	}
	return 0, 0
}

// shape is the model's, with the tokenizer's vocabulary where it has none of its own.
func (c *Config) shape(vocab int) model.Config {
	shape := c.Model
	if shape.VocabSize == 0 {
		shape.VocabSize = vocab
	}
	return shape
}
