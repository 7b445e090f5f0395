package train

import (
	"fmt"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
)

// Values of Config.Memory.
const (
	memoryCheck  = "check"
	memoryIgnore = "ignore"
)

var memoryChoices = []string{memoryCheck, memoryIgnore}

// paramCount is the number of a model's parameters: of all, and of those that are trained. values is the memory of the
// values of all.
type paramCount struct{ all, trained, values int }

// countParams counts the parameters of a shape.
func (c *Config) countParams(shape model.Config) (paramCount, error) {
	m, err := model.New(shape)
	if err != nil {
		return paramCount{}, err
	}
	return c.freeze(m)
}

// bytes is the memory of parameters while they are trained: values of all, and of those that are trained two
// moments, and gradients, of which the shards of an update need several.
func (n paramCount) bytes(shards int) int { return n.values + 4*(2+sumsOf(shards))*n.trained }

// MemoryError says that a run needs more memory than there is, and what would make it fit.
type MemoryError struct {
	Need, Weights, Activations int // bytes, in all and of them; no activations where the weights alone are too much
	Free                       status.Memory
	Advice                     string
}

// Error says how much memory the run needs, what for, and what would make it fit.
func (e *MemoryError) Error() string {
	of := fmt.Sprintf("weights, gradients and moments %s", bytesText(e.Weights))
	if e.Activations > 0 {
		of += ", activations " + bytesText(e.Activations)
	}
	return fmt.Sprintf("memory: the run needs about %s (%s), but %s leaves %s; %s; memory=%s tries all the same",
		bytesText(e.Need), of, e.Free.Of,
		bytesText(int(e.Free.Bytes)), e.Advice, memoryIgnore)
}

func bytesText(n int) string { return status.Bytes(uint64(max(0, n))) }

// weightsFit returns a *MemoryError if the parameters of a model alone need more memory to be trained than there is.
func weightsFit(params paramCount, shards int, free status.Memory) error {
	need := params.bytes(shards)
	if need <= int(free.Bytes) {
		return nil
	}
	e := &MemoryError{Need: need, Weights: need, Free: free,
		Advice: "a smaller model.d_model or fewer layers need less"}
	if params.bytes(1) <= int(free.Bytes) {
		e.Advice = fmt.Sprintf("fewer shards (found %d), which are larger, need less", shards)
	}
	return e
}

// checkMemory returns a *MemoryError if a run needs more memory than there is. vocab is the size of the tokenizer's
// vocabulary. Only runs that may come near the limit are measured, by small updates.
func (c *Config) checkMemory(vocab int) error {
	free, known := status.FreeMemory()
	if !known || c.Memory == memoryIgnore {
		return nil
	}
	shape := c.shape(vocab)
	params, err := c.countParams(shape)
	if err != nil {
		return err
	}
	if err := weightsFit(params, c.Train.Shards, free); err != nil {
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
	if rough+float64(params.bytes(c.Train.Shards)) < float64(free.Bytes) {
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
func (c *Config) fitsIn(free status.Memory, params paramCount, activations int) error {
	weights := params.bytes(c.Train.Shards)
	if weights+activations <= int(free.Bytes) {
		return nil
	}
	e := &MemoryError{Need: weights + activations, Weights: weights, Activations: activations, Free: free}
	if batch, shards := c.smaller(int(free.Bytes), params, activations); batch > 0 {
		e.Advice = fmt.Sprintf("train.batch_size=%d with train.shards=%d fits", batch, shards)
	} else if weights >= int(free.Bytes) {
		e.Advice = "a smaller model.d_model or fewer layers need less"
	} else {
		e.Advice = "a smaller train.seq_len, model.d_model or fewer layers need less"
	}
	return e
}

// smaller cuts an update into more shards of fewer sequences, so that it takes no more bytes; 0 where that cannot be.
func (c *Config) smaller(bytes int, params paramCount, activations int) (batch, shards int) {
	each := float64(activations) / float64(c.Train.BatchSize)
	room := float64(bytes - params.bytes(c.Train.Shards))
	for batch = min(c.Train.BatchSize, int(room/each)); batch > 0; batch-- {
		shards = (c.Train.sequences() + batch - 1) / batch
		if float64(params.bytes(shards))+each*float64(batch) <= float64(bytes) {
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
