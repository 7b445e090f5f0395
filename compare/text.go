package compare

import (
	"context"
	"math"

	"github.com/hippo-ssm/hippo/data"
)

// Text reads the text of the comparison and computes the losses of n-gram counts on it. Later runs save these losses
// with their results.
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

// BitsPerByte converts nats per token to bits per byte of the text. It returns nil if nats is nil or the bytes per
// token are not known.
func (t *Text) BitsPerByte(nats *float64) *float64 {
	if nats == nil || t.BytesPerToken == 0 {
		return nil
	}
	bits := *nats / math.Ln2 / t.BytesPerToken
	return &bits
}
