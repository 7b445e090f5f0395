package release

import (
	"slices"
)

// lfm2 is the family of LFM2 (Liquid AI): a gated short convolution or attention with norms of queries and keys, then
// an MLP.
var lfm2 = hfFamily{tied: true, options: func() hfOptions {
	return &lfm2Options{Eps: 1e-5, Taps: 3, Multiple: 256, Factor: 1, Adjust: true}
}}

type lfm2Options struct {
	hfAttention
	Kinds     []string `json:"layer_types"`
	Attention *[]int   `json:"full_attn_idxs"`
	Inner     int      `json:"intermediate_size"`
	OldInner  *int     `json:"block_ff_dim"`
	Adjust    bool     `json:"block_auto_adjust_ff_dim"`
	Factor    float64  `json:"block_ffn_dim_multiplier"`
	Multiple  int      `json:"block_multiple_of"`
	Taps      int      `json:"conv_L_cache"`
	ConvBias  bool     `json:"conv_bias"`
	Eps       float64  `json:"norm_eps"`

	half func(layer int) string // suffix of a layer's entry that names its feed-forward part; nil for none
}

// width returns the inner width of the MLPs.
func (o *lfm2Options) width(c *hfCommon) int {
	w := o.Inner
	set(&w, o.OldInner)
	if !o.Adjust {
		return w
	}
	if o.Multiple < 1 || w < 1 || w > 1<<30 || !(o.Factor > 0 && o.Factor < 1<<20) {
		c.failf("intermediate_size, block_multiple_of, block_ffn_dim_multiplier: found %d, %d and %g, "+
			"want numbers above 0", w, o.Multiple, o.Factor)
		return 0
	}
	w = int(o.Factor * float64(2*w/3))
	return (w + o.Multiple - 1) / o.Multiple * o.Multiple
}

// kinds returns the kinds of the layers: conv or attention.
func (o *lfm2Options) kinds(layers int) []string {
	if len(o.Kinds) > 0 || o.Attention == nil {
		kinds := slices.Clone(o.Kinds)
		if len(kinds) == 0 {
			kinds = slices.Repeat([]string{"attention"}, layers)
		}
		return kinds
	}
	kinds := slices.Repeat([]string{"conv"}, layers)
	for _, i := range *o.Attention {
		if i >= 0 && i < layers {
			kinds[i] = "attention"
		}
	}
	return kinds
}

func (o *lfm2Options) model(c *hfCommon) (m published) {
	c.someLayers()
	attention, headDim, kv := o.hfAttention.options(c, 8)
	rotary := c.rotary(1e6)
	mixers := map[string]string{
		"conv": entry("gated-conv", given{"d_conv": o.Taps, "bias": o.ConvBias}),
		"attention": entry("attention",
			attention.rotated(headDim, rotary).with(given{"qk_norm": true, "norm_eps": o.Eps})),
	}
	kinds := o.kinds(c.Layers)
	if len(kinds) != c.Layers {
		return c.failf("layer_types: found %d, want num_hidden_layers %d", len(kinds), c.Layers)
	}
	layers := c.entriesOf("layer_types", kinds, mixers, "conv or full_attention")
	if o.half != nil {
		for i := range layers {
			layers[i] += o.half(i)
		}
	}
	m.config = newHFConfig(layers, entry("swiglu", given{"bias": false}), o.Eps)
	m.config.DInner = o.width(c)
	m.names = decoderNames("model.embedding_norm.", append(layerNorms("operator_norm", "ffn_norm"),
		swiGLU("feed_forward.", "w1", "w3", "w2")...),
		map[string][]rename{
			"gated-conv": {to("conv1d.", "conv.conv."), to("", "conv.")},
			"attention": append([]rename{to("q_norm.", "self_attn.q_layernorm."),
				to("k_norm.", "self_attn.k_layernorm.")},
				attentionNames("self_attn.", "out_proj", o.hfAttention.Heads, kv)...),
		})
	return m
}
