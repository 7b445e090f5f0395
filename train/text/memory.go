package text

import (
	"fmt"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// countParams counts the parameters of a shape and their memory.
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

// spared returns the memory of the moments that a machine does not keep because each part is only on two machines.
func (t *Loop) spared(trained, machines int) int {
	if t.Moments != momentsSplit || machines < 3 {
		return 0
	}
	return 8 * trained / machines * (machines - 2)
}

// checkMemory returns a *train.MemoryError if a run needs more memory than is free. vocab is the size of the
// tokenizer's vocabulary. Only runs that may come near the limit are measured, by small updates.
func (c *Config) checkMemory(vocab int) error {
	free, known := train.FreeMemory(c.Device)
	switch {
	case !known || c.Memory == train.MemoryIgnore:
		return nil
	case c.Device == nil:
		return c.checkRoom(free, vocab)
	}
	// activations are not known beforehand: the step fails if it lacks memory
	params, err := c.countParams(c.shape(vocab))
	if err != nil {
		return err
	}
	params.More = 0 // More is on the host
	return train.WeightsFit(params, c.Train.Shards, free)
}

// FitsDevice returns a *train.MemoryError if weights, gradients and moments of a run need more memory than its device
// has.
func (c *Config) FitsDevice() error { return c.checkMemory(c.likelyVocab()) }

// checkRoom is checkMemory for the given free memory.
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
	// Updates keep 22 to 27 numbers per channel and layer for each token of a shard (H3, Mamba, attention). Some mixers
	// keep more.
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

// fitsIn returns a *train.MemoryError if the parameters in training and the activations of a shard exceed the free
// memory.
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

// smaller splits an update into more shards of fewer sequences, with the same total, so that it needs at most the given
// bytes. It returns 0, 0 if that is impossible.
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

// shape returns the model's shape, with the tokenizer's vocabulary size if none is configured.
func (c *Config) shape(vocab int) model.Config {
	shape := c.Model
	if shape.VocabSize == 0 {
		shape.VocabSize = vocab
	}
	return shape
}
