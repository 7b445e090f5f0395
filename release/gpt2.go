package release

import (
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// gpt2 is the family of GPT-2 ("Language Models are Unsupervised Multitask Learners", Radford et al. 2019): learned
// positions, attention, then an MLP with GELU. Its files store matrices as (in, out), transposed relative to all
// others.
var gpt2 = hfFamily{tied: true, options: func() hfOptions {
	return &gpt2Options{Vocab: 50257, Positions: 1024, Width: 768, Layers: 12, Heads: 12, Eps: 1e-5, Scaled: true}
}}

type gpt2Options struct {
	Vocab     int     `json:"vocab_size"`
	Positions int     `json:"n_positions"`
	Width     int     `json:"n_embd"`
	Layers    int     `json:"n_layer"`
	Heads     int     `json:"n_head"`
	Inner     *int    `json:"n_inner"`
	Eps       float64 `json:"layer_norm_epsilon"`
	Act       *string `json:"activation_function"`
	Scaled    bool    `json:"scale_attn_weights"`
	ByLayer   bool    `json:"scale_attn_by_inverse_layer_idx"`
	Cross     bool    `json:"add_cross_attention"`
}

func (o *gpt2Options) model(c *hfCommon) (m published) {
	c.wantAct("activation_function", o.Act, "gelu_new", "gelu_pytorch_tanh")
	c.VocabSize, c.Hidden, c.Layers = o.Vocab, o.Width, o.Layers
	if c.Layers < 1 || c.Layers > maxLayers {
		return c.failf("n_layer: found %d, want 1 to %d", c.Layers, maxLayers)
	}
	switch {
	case !o.Scaled:
		return c.failf("scale_attn_weights: found false, want true")
	case o.ByLayer:
		return c.failf("scale_attn_by_inverse_layer_idx: found true, want false")
	case o.Cross:
		return c.failf("add_cross_attention: found true, want false")
	case o.Positions < 1:
		return c.failf("n_positions: found %d, want 1 or more", o.Positions)
	}
	layer := entry("attention", given{"num_heads": o.Heads})
	m.config = newHFConfig(slices.Repeat([]string{layer}, c.Layers), model.MLPGelu, o.Eps)
	m.config.Norm, m.config.MaxPositions = model.NormLayer, o.Positions
	set(&m.config.DInner, o.Inner)
	m.names = hfNames{
		embedding: []string{"transformer.wte."}, positions: "transformer.wpe.", norm: "transformer.ln_f.",
		layers: "transformer.h.", optional: "transformer.",
		layer: append(layerNorms("ln_1", "ln_2"), to("mlp.fc1.", "mlp.c_fc."), to("mlp.fc2.", "mlp.c_proj.")),
		mixers: map[string][]rename{
			"attention": {to("Wqkv.", "attn.c_attn."), to("out_proj.", "attn.c_proj.")},
		},
		turned: []string{"attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"},
		masks:  []string{".attn.bias", ".attn.masked_bias"},
	}
	return m
}
