// Package model builds language models from mixers: configuration, presets, blocks, head, the registry of mixers and
// the names of parameters. Package release reads published models.
package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/nn"
)

// Config is the shape of a model, as in config.json. Fields are named as in the official constructor, if it has them.
type Config struct {
	DModel   int    `json:"d_model" help:"width of the residual stream"`
	NLayer   int    `json:"n_layer" help:"number of blocks"`
	DInner   int    `json:"d_inner" help:"inner width of the MLP; 0 means 4·d_model"`
	Mixer    string `json:"mixer" help:"mixer of every block without another one: see hippo mixers"`
	AttnIdx  []int  `json:"attn_layer_idx" help:"blocks (from 0) whose mixer is attention"`
	Layers   string `json:"layers" help:"mixers in order: h3*2,attention(num_heads=4)/swiglu; overrides n_layer"`
	NumHeads int    `json:"num_heads" help:"attention heads"`
	Norm     string `json:"norm" enum:"layer,rms,rms_plus_one" help:"norms of the stream: layer (LayerNorm) or RMSNorm"`
	MLP      string `json:"mlp" help:"MLP after each mixer: gelu, relu2, glu, swiglu, geglu, channel-mix or none"`
	Rotary   int    `json:"rotary_emb_dim" help:"rotated components of each attention head; 0 for none"`

	MaxPositions int `json:"max_position_embeddings" help:"number of learned positions; 0 for none"`

	DState    int     `json:"d_state" help:"state size of the SSMs"`
	HeadDim   int     `json:"head_dim" help:"channels of an H3 head"`
	HeadOrder string  `json:"head_order" enum:"dh,hd" help:"order of flattened H3 heads: as in PyTorch or CUDA"`
	Measure   string  `json:"measure" help:"initial A: diag-lin, -inv, -legs, -inv2, -quad, -real, -rand or -exp"`
	DtMin     float64 `json:"dt_min" help:"smallest initial dt"`
	DtMax     float64 `json:"dt_max" help:"largest initial dt"`

	VocabSize        int     `json:"vocab_size" help:"tokens; 0 takes the tokenizer's"`
	PadVocab         int     `json:"pad_vocab_size_multiple" help:"round up the rows of the embedding to a multiple"`
	EmbedDropout     float64 `json:"embed_dropout" help:"dropout on embeddings, in training"`
	AttnDropout      float64 `json:"attn_dropout" help:"dropout on attention weights, in training"`
	ResidDropout     float64 `json:"resid_dropout" help:"dropout on the outputs of mixers and MLPs, in training"`
	LayerNormEpsilon float64 `json:"layer_norm_epsilon" help:"epsilon of the norms"`

	UntiedHead bool    `json:"untied_head" help:"give the head its own weights instead of the embedding's"`
	EmbedScale float64 `json:"embedding_multiplier" help:"multiplier of the embedding; 0 for none"`
	EmbedNorm  bool    `json:"embedding_norm,omitempty" help:"norm after the embedding, before the first block"`
	LogitScale float64 `json:"logits_multiplier" help:"multiplier of the logits; 0 for none"`
	LogitCap   float64 `json:"logits_soft_cap" help:"bound c of the logits, as c·tanh(logits/c); 0 for none"`

	// Tokenizer is the fingerprint of the tokenizer that the model was trained with, "" if unknown.
	Tokenizer string `json:"tokenizer_fingerprint,omitempty" config:"-"`
}

// DefaultConfig returns the values of fields that a config.json leaves out.
func DefaultConfig() Config {
	return Config{
		Mixer: "h3", Norm: NormLayer, MLP: MLPGelu, DState: 64, HeadDim: 1, HeadOrder: "dh", Measure: "diag-lin",
		DtMin: 1e-3, DtMax: 0.1, NumHeads: 1, PadVocab: 8, EmbedDropout: 0.1, AttnDropout: 0.1, LayerNormEpsilon: 1e-5,
	}
}

// Inner returns the inner width of the MLP.
func (c *Config) Inner() int {
	if c.DInner > 0 {
		return c.DInner
	}
	return 4 * c.DModel
}

// PaddedVocab returns the number of rows of the embedding.
func (c *Config) PaddedVocab() int {
	m := max(1, c.PadVocab)
	return (c.VocabSize + m - 1) / m * m
}

// maxLayers limits the cost of an invalid or hostile configuration.
const maxLayers = 10_000

// Plan returns the entry of every block, in order.
func (c *Config) Plan() ([]string, error) {
	if c.Layers != "" {
		return parseLayers(c.Layers)
	}
	if c.NLayer > maxLayers {
		return nil, fmt.Errorf("found %d, want at most %d", c.NLayer, maxLayers)
	}
	plan := slices.Repeat([]string{c.Mixer}, max(0, c.NLayer))
	for _, i := range c.AttnIdx {
		if i >= 0 && i < len(plan) {
			plan[i] = "attention"
		}
	}
	return plan, nil
}

// Validate returns every problem of the configuration of a language model at once, as a config.Problems.
func (c *Config) Validate() error { return c.validate(false) }

// ValidateEncoder is Validate for the backbone of a Network, which may look ahead and takes its vocabulary from its
// data.
func (c *Config) ValidateEncoder() error {
	shape := *c
	shape.VocabSize = max(1, shape.VocabSize)
	return shape.validate(true)
}

// validate is Validate for a language model, or for an encoder, which may look ahead.
func (c *Config) validate(encoder bool) error {
	var p config.Problems
	checkSize(&p, "d_model", c.DModel, 1)
	checkSize(&p, "vocab_size", c.VocabSize, 1)
	checkSize(&p, "pad_vocab_size_multiple", c.PadVocab, 0)
	checkSize(&p, "max_position_embeddings", c.MaxPositions, 0)
	checkSize(&p, "d_inner", c.DInner, 0) // 0 means 4·d_model
	for _, f := range []struct {
		key string
		v   float64
	}{{"embed_dropout", c.EmbedDropout}, {"attn_dropout", c.AttnDropout}, {"resid_dropout", c.ResidDropout}} {
		if !(f.v >= 0 && f.v < 1) {
			p.Addf(f.key, "found %g, want 0 ≤ p < 1", f.v)
		}
	}
	if !(c.LayerNormEpsilon > 0) {
		p.Addf("layer_norm_epsilon", "found %g, want more than 0", c.LayerNormEpsilon)
	}
	if c.Norm != NormLayer && c.Norm != NormRMS && c.Norm != NormRMSPlusOne {
		p.Addf("norm", "found %q, want %s, %s or %s", c.Norm, NormLayer, NormRMS, NormRMSPlusOne)
	}
	if _, err := newFeedForward(c.MLP, feedForwardShape{1, 1, 1}); err != nil {
		p.Addf("mlp", "%v", err)
	}
	for _, f := range []struct {
		key string
		v   float64
	}{{"embedding_multiplier", c.EmbedScale}, {"logits_multiplier", c.LogitScale}} {
		if math.IsNaN(f.v) || math.IsInf(f.v, 0) {
			p.Addf(f.key, "found %g, want a number", f.v)
		}
	}
	if !(c.LogitCap >= 0) {
		p.Addf("logits_soft_cap", "found %g, want 0 or more", c.LogitCap)
	}
	plan, err := c.Plan()
	switch {
	case err != nil && c.Layers != "":
		p.Addf("layers", "%v", err)
	case err != nil:
		p.Addf("n_layer", "%v", err)
	case len(plan) == 0:
		p.Addf("n_layer", "found %d, want at least 1", c.NLayer)
	}
	if c.Layers == "" {
		for _, i := range c.AttnIdx {
			if i < 0 || i >= c.NLayer {
				p.Addf("attn_layer_idx", "found %d, want blocks from 0 to n_layer-1 = %d", i, c.NLayer-1)
			}
		}
	}
	if c.DModel >= 1 && c.DModel <= maxSize {
		seen, blocks, shape := map[string]bool{}, mixer.SharedBlocks{}, c.feedForwardShape(len(plan))
		for _, name := range plan {
			if !seen[name] {
				seen[name] = true
				if _, err := c.newLayer(name, c.mixerConfig(len(plan)), shape, blocks, encoder); err != nil {
					p.Addf(name, "%v", err)
				}
			}
		}
	}
	return p.Err()
}

// checkSize reports a size that is too small, or so large that numbers computed from it could overflow an int.
func checkSize(p *config.Problems, key string, v, least int) {
	switch {
	case v < least:
		p.Addf(key, "found %d, want at least %d", v, least)
	case v > maxSize:
		p.Addf(key, "found %d, want at most %d", v, maxSize)
	}
}

func (c *Config) feedForwardShape(layers int) feedForwardShape {
	return feedForwardShape{d: c.DModel, inner: c.Inner(), outStd: nn.InitStd / math.Sqrt(float64(2*layers))}
}

func (c *Config) mixerConfig(layers int) mixer.Config {
	return mixer.Config{
		DModel: c.DModel, NLayer: layers, DState: c.DState, HeadDim: c.HeadDim, HeadOrder: c.HeadOrder,
		DtMin: c.DtMin, DtMax: c.DtMax, Measure: c.Measure, NumHeads: c.NumHeads, RotaryDim: c.Rotary,
		Dropout: c.AttnDropout,
	}
}

// ConfigFile is the name of the configuration in a model's folder.
const ConfigFile = "config.json"

// JSON returns the configuration in the form of config.json.
func (c *Config) JSON() []byte {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil { // in a struct of numbers and strings, only a NaN can fail
		panic(err)
	}
	return append(data, '\n')
}
