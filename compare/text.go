package compare

import (
	"context"
	"math"

	"github.com/hippo-ssm/hippo/data"
)

// Text reads the text of the comparison, and counts in it. Runs after it keep the losses of counting with their
// results.
func (c *Comparison) Text(ctx context.Context) (Text, error) {
	cfg := c.Models[0].Config
	d, err := cfg.OpenData(ctx, nil)
	if err != nil {
		return Text{}, err
	}
	defer d.Close()
	t := Text{
		Name: d.Name, Tokenizer: d.Tokenizer.Kind(), TrainTokens: d.Train.Len(), ValidTokens: d.Valid.Len(),
	}
	if d.Valid.Len() > 1 {
		bytes, err := d.Valid.Slice(1, d.Valid.Len()).Bytes()
		if err != nil {
			return Text{}, err
		}
		t.BytesPerToken = float64(bytes) / float64(d.Valid.Len()-1)
	}
	t.Baseline, err = data.NGramBaseline(ctx, d.Train, d.Valid, d.Tokenizer.VocabSize())
	c.counted = &t.Baseline
	return t, err
}

// Text is the text of a comparison, with the losses of n-gram counts on it, in nats per token.
type Text struct {
	Name          string        `json:"name"`
	Tokenizer     string        `json:"tokenizer"`
	TrainTokens   int           `json:"train_tokens"`
	ValidTokens   int           `json:"valid_tokens"`
	BytesPerToken float64       `json:"bytes_per_token"`
	Baseline      data.Baseline `json:"baseline"`
}

// BitsPerByte turns nats per token into bits per byte of the text. It is nil if one of them is not known.
func (t *Text) BitsPerByte(nats *float64) *float64 {
	if nats == nil || t.BytesPerToken == 0 {
		return nil
	}
	bits := *nats / math.Ln2 / t.BytesPerToken
	return &bits
}
