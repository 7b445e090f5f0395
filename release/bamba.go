package release

import (
	"fmt"
)

// bamba is Bamba (IBM, Princeton, CMU, UIUC): Mamba-2 or attention with rotary positions on half of each head, then an
// MLP.
var bamba = hfFamily{options: func() hfOptions {
	return &bambaOptions{hfMambaHybrid: mambaHybridDefaults(), Eps: 1e-5}
}}

type bambaOptions struct {
	hfAttention
	hfMambaHybrid
	Attention []int   `json:"attn_layer_indices"`
	Inner     int     `json:"intermediate_size"`
	MLPBias   bool    `json:"mlp_bias"`
	Eps       float64 `json:"rms_norm_eps"`
	Act       *string `json:"hidden_act"`
}

func (o *bambaOptions) model(c *hfCommon) (m published, err error) {
	if err := wantAct("hidden_act", o.Act, "silu"); err != nil {
		return m, err
	}
	if err := someLayers(c.Layers); err != nil {
		return m, err
	}
	attention, headDim, kv, err := o.hfAttention.options(c, 8)
	if err != nil {
		return m, err
	}
	base, err := c.base(10000)
	if err != nil {
		return m, err
	}
	mamba, err := o.hfMambaHybrid.options(c, 0, o.Eps)
	if err != nil {
		return m, err
	}
	layers := make([]string, c.Layers)
	for i := range layers {
		layers[i] = entry("mamba2", mamba.with(given{"grouped_norm": o.Groups == 1}))
	}
	for _, i := range o.Attention {
		if i < 0 || i >= len(layers) {
			return m, fmt.Errorf("attn_layer_indices: found %d, want numbers below num_hidden_layers %d", i, c.Layers)
		}
		layers[i] = entry("attention", attention.rotated(headDim/2, base))
	}
	m.config = newHFConfig(layers, entry("swiglu", given{"bias": o.MLPBias}), o.Eps)
	m.config.DInner = o.Inner
	m.names = hfNames{
		embedding: []string{"model.embed_tokens."}, norm: "model.final_layernorm.", layers: "model.layers.",
		layer: append(layerNorms("input_layernorm", "pre_ff_layernorm"),
			swiGLU("feed_forward.", "gate_proj", "up_proj", "down_proj")...),
		mixers: map[string][]rename{
			"mamba2":    mambaNamesIn("mamba."),
			"attention": attentionNames("self_attn.", "o_proj", o.hfAttention.Heads, kv),
		},
	}
	return m, nil
}
