package train

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
)

// Values of Config.Memory.
const (
	memoryCheck  = "check"
	memoryIgnore = "ignore"
)

var memoryChoices = []string{memoryCheck, memoryIgnore}

// perParam is the memory of a parameter while it is trained: value and two moments in float32, and gradients, of which
// the shards of an update need several.
func perParam(shards int) int { return 4 * (1 + 2 + sumsOf(shards)) }

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
func weightsFit(params, shards int, free status.Memory) error {
	need := perParam(shards) * params
	if need <= int(free.Bytes) {
		return nil
	}
	e := &MemoryError{Need: need, Weights: need, Free: free,
		Advice: "a smaller model.d_model or fewer layers need less"}
	if perParam(1)*params <= int(free.Bytes) {
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
	params, err := shape.CountParams()
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
	tokens := float64(c.Train.BatchSize) * float64(c.Train.SeqLen)
	rough := 4 * most * tokens * float64(len(plan)) * float64(shape.DModel+shape.Inner()/4)
	if rough+float64(perParam(c.Train.Shards)*params) < float64(free.Bytes) {
		return nil
	}
	bytes, err := c.activations(shape, plan)
	if err != nil {
		return err
	}
	return c.fitsIn(free, params, bytes)
}

// fitsIn returns a *MemoryError if parameters in training and the activations of a shard are more than there is.
func (c *Config) fitsIn(free status.Memory, params, activations int) error {
	weights := perParam(c.Train.Shards) * params
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
func (c *Config) smaller(bytes, params, activations int) (batch, shards int) {
	each := float64(activations) / float64(c.Train.BatchSize)
	room := float64(bytes - perParam(c.Train.Shards)*params)
	for batch = min(c.Train.BatchSize, int(room/each)); batch > 0; batch-- {
		shards = (c.Train.sequences() + batch - 1) / batch
		if float64(perParam(shards)*params)+each*float64(batch) <= float64(bytes) {
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

// Bounds of probes: memory, for machines that do not say how much they have, and parameters, which bound their time.
// Probes of wider models have about narrowParams.
const (
	unknownMemory = 8 << 30
	mostParams    = 1 << 29
	narrowParams  = 1 << 24
)

// narrowed is a shape whose probes fit into memory: the shape itself or, where one layer of each kind is too large, one
// that is less wide. It also returns how many times the width and the parameters the shape has.
func narrowed(shape model.Config, plan []string) (narrow model.Config, width, params float64, err error) {
	free, known := status.FreeMemory()
	if !known {
		free.Bytes = unknownMemory
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(plan)))
	probe := shape
	probe.Layers = strings.Join(append(kinds, kinds...), ",")
	n, err := probe.CountParams()
	if err != nil {
		return shape, 1, 1, err
	}
	const perProbe = 8 // value and gradient
	most := min(int(free.Bytes)/2/perProbe, mostParams)
	if n <= most {
		return shape, 1, 1, nil
	}
	fitting, got, err := probe.FitWidth(min(most/2, narrowParams))
	if err != nil {
		return shape, 1, 1, fmt.Errorf("model: found %d parameters in one layer of each kind, which are too many to "+
			"measure: %w", n, err)
	}
	return shape.AtWidth(fitting.DModel), float64(shape.DModel) / float64(fitting.DModel), float64(n) / float64(got),
		nil
}

// activations is the memory of one shard, from small updates.
func (c *Config) activations(shape model.Config, plan []string) (int, error) {
	narrow, width, _, err := narrowed(shape, plan)
	if err != nil {
		return 0, err
	}
	bytes, err := c.extrapolateBytes(narrow, plan)
	return int(float64(bytes) * width), err
}
