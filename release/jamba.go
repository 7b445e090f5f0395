package release

import "fmt"

// jamba is Jamba (arXiv:2403.19887): Mamba with norms inside, or attention without positions, then an MLP.
var jamba = hfFamily{options: func() hfOptions {
	return &jambaOptions{Eps: 1e-6, Period: 8, Offset: 4, Expand: 2, State: 16, Conv: 4, ConvBias: true, Experts: 16}
}}

type jambaOptions struct {
	hfAttention
	Period   int     `json:"attn_layer_period"`
	Offset   int     `json:"attn_layer_offset"`
	Experts  int     `json:"num_experts"`
	Inner    int     `json:"intermediate_size"`
	Expand   int     `json:"mamba_expand"`
	State    int     `json:"mamba_d_state"`
	Conv     int     `json:"mamba_d_conv"`
	Rank     auto    `json:"mamba_dt_rank"`
	MixBias  bool    `json:"mamba_proj_bias"`
	ConvBias bool    `json:"mamba_conv_bias"`
	Eps      float64 `json:"rms_norm_eps"`
	Act      *string `json:"hidden_act"`
}

func (o *jambaOptions) model(c *hfCommon) (m published, err error) {
	if err := wantAct("hidden_act", o.Act, "silu"); err != nil {
		return m, err
	}
	if err := someLayers(c.Layers); err != nil {
		return m, err
	}
	if o.Experts > 1 {
		return m, fmt.Errorf("num_experts: found %d, %w", o.Experts, errExperts)
	}
	if o.Period < 1 || o.Offset < 0 {
		return m, fmt.Errorf("attn_layer_period, attn_layer_offset: found %d and %d, want 1 and 0 or more", o.Period,
			o.Offset)
	}
	attention, _, kv, err := o.hfAttention.options(c, 8)
	if err != nil {
		return m, err
	}
	layers := make([]string, c.Layers)
	for i := range layers {
		if i%o.Period == o.Offset {
			layers[i] = entry("attention", attention)
			continue
		}
		layers[i] = entry("mamba", given{
			"expand": o.Expand, "d_state": o.State, "d_conv": o.Conv, "dt_rank": rank(o.Rank, c.Hidden),
			"bias": o.MixBias, "conv_bias": o.ConvBias, "bcdt_norm": "learned", "norm_eps": o.Eps,
		})
	}
	m.config = newHFConfig(layers, entry("swiglu", given{"bias": false}), o.Eps)
	m.config.DInner = o.Inner
	m.names = hfNames{
		embedding: []string{"model.embed_tokens."}, norm: "model.final_layernorm.", layers: "model.layers.",
		layer: append(layerNorms("input_layernorm", "pre_ff_layernorm"),
			swiGLU("feed_forward.", "gate_proj", "up_proj", "down_proj")...),
		mixers: map[string][]rename{
			"mamba":     mambaNamesIn("mamba."),
			"attention": attentionNames("self_attn.", "o_proj", o.hfAttention.Heads, kv),
		},
	}
	return m, nil
}

// rank is dt_rank as the mixer is told it: 0 for d_model/16, rounded up.
func rank(r auto, hidden int) int {
	if int(r) == (hidden+15)/16 {
		return 0
	}
	return int(r)
}
