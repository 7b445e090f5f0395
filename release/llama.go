package release

import "slices"

// llama, mistral, qwen2 and qwen3 are families with attention with rotary positions, then a gated MLP, in every layer:
// Llama (arXiv:2302.13971, Llama 3 arXiv:2407.21783), Mistral (arXiv:2310.06825), whose attention may have a window,
// Qwen2 (arXiv:2407.10671), with biases of queries, keys and values, and Qwen3 (arXiv:2505.09388), with norms of
// queries and keys.
var (
	llama = hfFamily{options: func() hfOptions {
		return &llamaOptions{Inner: 11008, Eps: 1e-6}
	}}
	mistral = hfFamily{options: func() hfOptions {
		return &llamaOptions{Inner: 14336, Eps: 1e-6, Window: pointer(4096), kvHeads: 8}
	}}
	qwen2 = hfFamily{options: func() hfOptions {
		return &llamaOptions{Inner: 22016, Eps: 1e-6, Window: pointer(4096), WindowFrom: 28, kvHeads: 32,
			UseWindow: pointer(false), bias: true}
	}}
	qwen3 = hfFamily{options: func() hfOptions {
		return &llamaOptions{hfAttention: hfAttention{HeadDim: pointer(128)}, Inner: 22016, Eps: 1e-6,
			Window: pointer(4096), WindowFrom: 28, kvHeads: 32, UseWindow: pointer(false), norms: true}
	}}
)

// pointer returns a pointer to x.
func pointer[T any](x T) *T { return &x }

type llamaOptions struct {
	hfAttention
	Inner      int      `json:"intermediate_size"`
	MLPBias    bool     `json:"mlp_bias"`
	Window     *int     `json:"sliding_window"`
	UseWindow  *bool    `json:"use_sliding_window"`
	WindowFrom int      `json:"max_window_layers"`
	Kinds      []string `json:"layer_types"`
	Eps        float64  `json:"rms_norm_eps"`
	Act        *string  `json:"hidden_act"`

	kvHeads int // default number; 0 for as many as query heads
	bias    bool
	norms   bool
}

// kinds returns the kinds of layers: full_attention or sliding_attention.
func (o *llamaOptions) kinds(layers int) []string {
	if len(o.Kinds) > 0 {
		return o.Kinds
	}
	kinds := slices.Repeat([]string{"full_attention"}, layers)
	if o.Window != nil && (o.UseWindow == nil || *o.UseWindow) {
		for i := o.WindowFrom; i >= 0 && i < layers; i++ {
			kinds[i] = "sliding_attention"
		}
	}
	return kinds
}

func (o *llamaOptions) model(c *hfCommon) (m published) {
	c.wantAct("hidden_act", o.Act, "silu")
	c.someLayers()
	if o.kvHeads == 0 {
		o.kvHeads = o.Heads
	}
	attention, headDim, kv := o.hfAttention.options(c, o.kvHeads)
	attention = attention.rotated(headDim, c.rotary(10000))
	if o.bias {
		attention["bias"] = true
	}
	if o.norms {
		attention = attention.with(given{"qk_norm": true, "norm_eps": o.Eps})
	}
	mixers := map[string]string{"attention": entry("attention", attention)}
	if o.Window != nil {
		mixers["sliding_attention"] = entry("window-attention", attention.with(given{"window": *o.Window}))
	}
	kinds := o.kinds(c.Layers)
	if len(kinds) != c.Layers {
		return c.failf("layer_types: found %d, want num_hidden_layers %d", len(kinds), c.Layers)
	}
	layers := c.entriesOf("layer_types", kinds, mixers, "full_attention, or sliding_attention with sliding_window")
	m.config = newHFConfig(layers, entry("swiglu", given{"bias": o.MLPBias}), o.Eps)
	m.config.DInner = o.Inner
	names := attentionNames("self_attn.", "o_proj", o.Heads, kv)
	m.names = decoderNames("model.norm.", append(layerNorms("input_layernorm", "post_attention_layernorm"),
		swiGLU("mlp.", "gate_proj", "up_proj", "down_proj")...),
		map[string][]rename{"attention": names, "window-attention": names})
	return m
}
