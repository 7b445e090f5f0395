package text

import (
	"context"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"
)

// Smoke reduces the settings to those of a trial: two updates, a measurement on a short text, a checkpoint, a sample
// text.
func (c *Config) Smoke() {
	t := &c.Train
	t.Steps, t.Epochs, t.Time, t.LogEvery, t.EvalEvery, t.SaveEvery, t.SampleEvery = 2, 0, 0, 1, 2, 2, 2
	t.SampleTokens = min(t.SampleTokens, 32)
	t.EvalTokens = min(t.EvalTokens, t.BatchSize*t.SeqLen)
	c.Optim.Warmup = min(c.Optim.Warmup, 1)
	c.smoke = true
}

// CountSteps computes the number of updates from the configured epochs, if set, and the length of the text.
func (c *Config) CountSteps(ctx context.Context) error {
	if c.Train.Epochs == 0 {
		return nil
	}
	d, err := c.OpenData(ctx, nil)
	if err != nil {
		return err
	}
	defer d.Close()
	c.Train.countSteps(d.Train.Len())
	return nil
}

// countSteps computes the number of updates from the epochs, if set, given the tokens of an epoch.
func (t *Loop) countSteps(tokens int) {
	if t.Epochs > 0 {
		t.Steps = int(math.Ceil(t.Epochs * float64(tokens) / float64(t.tokensPerStep())))
	}
}

// FitBatch sets the number of sequences of a shard to the most that fit into memory, and the number of shards so that
// an update has as many sequences as before. The result of training is the same up to rounding errors. vocab is the
// size of the tokenizer's vocabulary. FitBatch returns a description of what it did, for the user.
func (c *Config) FitBatch(vocab int) (string, error) {
	free, known := status.FreeMemory()
	if !known {
		return "", fmt.Errorf("batch: found auto on a machine that does not say how much memory it has; want a number")
	}
	return c.fitBatch(free, vocab)
}

// fitBatch is FitBatch for the given free memory.
func (c *Config) fitBatch(free status.Memory, vocab int) (string, error) {
	all := c.Train.sequences()
	c.Train.BatchSize, c.Train.Shards = all, 1
	shape := c.shape(vocab)
	params, err := c.countParams(shape)
	if err != nil {
		return "", err
	}
	if err := train.WeightsFit(params, 1, free); err != nil {
		return "", err
	}
	run, err := c.probes(shape)
	if err != nil {
		return "", err
	}
	activations, err := run.activations()
	if err != nil {
		return "", err
	}
	most := int(free.Bytes) / 10 * 9 // estimates are not exact
	batch, shards := c.smaller(most, params, activations)
	if batch == 0 {
		return "", c.fitsIn(status.Memory{Bytes: uint64(most), Of: free.Of}, params, activations)
	}
	activations = activations / all * batch
	c.Train.BatchSize, c.Train.Shards = batch, shards
	return fmt.Sprintf("batch auto: %d sequences of %d tokens at a time, %d of these shards in an update, "+
		"take about %s (%s leaves %s)", c.Train.BatchSize, c.Train.SeqLen, c.Train.Shards,
		status.Bytes(uint64(params.Bytes(c.Train.Shards)+activations)), free.Of, status.Bytes(free.Bytes)), nil
}
