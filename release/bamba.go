package release

// bamba is the family of Bamba (IBM, Princeton, CMU, UIUC): Mamba-2 or attention with rotary positions on half of each
// head, then an MLP.
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

func (o *bambaOptions) model(c *hfCommon) (m published) {
	c.wantAct("hidden_act", o.Act, "silu")
	c.someLayers()
	attention, headDim, kv := o.hfAttention.options(c, 8)
	rotary := c.rotary(10000)
	mamba := o.hfMambaHybrid.options(c, 0, o.Eps)
	layers := make([]string, c.Layers)
	for i := range layers {
		layers[i] = entry("mamba2", mamba.with(given{"grouped_norm": o.Groups == 1}))
	}
	for _, i := range o.Attention {
		if i < 0 || i >= len(layers) {
			return c.failf("attn_layer_indices: found %d, want numbers below num_hidden_layers %d", i, c.Layers)
		}
		layers[i] = entry("attention", attention.rotated(headDim/2, rotary))
	}
	m.config = newHFConfig(layers, entry("swiglu", given{"bias": o.MLPBias}), o.Eps)
	m.config.DInner = o.Inner
	m.names = jambaNames(o.hfAttention.Heads, kv)
	return m
}
