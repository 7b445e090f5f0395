package release

import (
	"encoding/json"
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// olmoHybrid is the family of Olmo Hybrid (Ai2): gated delta networks, in every fourth layer attention, then a gated
// MLP. In a layer with attention the norms come after the parts, and the norms of queries and keys are over all heads
// at once.
var olmoHybrid = hfFamily{options: func() hfOptions {
	return &olmoHybridOptions{hfAttention: hfAttention{Heads: 30}, hfLinearHeads: hfLinearHeads{Conv: 4},
		NegEigval: true, Inner: 11008, Eps: 1e-6}
}}

type olmoHybridOptions struct {
	hfAttention
	hfLinearHeads
	NegEigval bool      `json:"linear_allow_neg_eigval"`
	Kinds     []string  `json:"layer_types"`
	Inner     int       `json:"intermediate_size"`
	Eps       float64   `json:"rms_norm_eps"`
	Act       *string   `json:"hidden_act"`
	Rope      *olmoRoPE `json:"rope_parameters"`
}

// olmoRoPE distinguishes a rope_theta of null, which means no positions, from a missing one.
type olmoRoPE struct {
	Theta json.RawMessage `json:"rope_theta"`
}

// rotates reports whether attention has rotary positions.
func (o *olmoHybridOptions) rotates() bool {
	return o.Rope == nil || len(o.Rope.Theta) > 0 && string(o.Rope.Theta) != "null"
}

func (o *olmoHybridOptions) model(c *hfCommon) (m published) {
	c.wantAct("hidden_act", o.Act, "silu")
	c.someLayers()
	kinds := o.Kinds
	if len(kinds) == 0 {
		kinds = slices.Repeat([]string{"linear_attention"}, c.Layers)
		for i := 3; i < c.Layers; i += 4 {
			kinds[i] = "full_attention"
		}
	}
	if len(kinds) != c.Layers {
		return c.failf("layer_types: found %d, want num_hidden_layers %d", len(kinds), c.Layers)
	}
	attention, headDim, kv := o.hfAttention.options(c, o.hfAttention.Heads)
	if c.err != nil {
		return m
	}
	attention = attention.with(given{"qk_norm": true, "qk_norm_all": true, "norm_eps": o.Eps})
	if o.rotates() {
		attention = attention.rotated(headDim, c.plainRotary(10000))
	}
	h := &o.hfLinearHeads
	for _, heads := range []*int{&h.KeyHeads, &h.Heads} {
		if *heads == 0 {
			*heads = o.hfAttention.Heads
		}
	}
	if h.KeyDim == nil {
		h.KeyDim = pointer(3 * c.Hidden / (4 * o.hfAttention.Heads))
	}
	if h.ValueDim == nil {
		h.ValueDim = pointer(2 * *h.KeyDim)
	}
	linear := h.options(c, olmoHeadEps).with(given{"allow_neg_eigval": o.NegEigval})
	if c.err != nil {
		return m
	}
	layers := c.entriesOf("layer_types", kinds, map[string]string{"mamba": entry("gated-deltanet", linear),
		"attention": "norm-after>" + entry("attention", attention)}, "linear_attention or full_attention")
	m.config = newHFConfig(layers, entry("swiglu", given{"bias": false}), o.Eps)
	m.config.DInner = o.Inner
	keys, values := h.KeyHeads*(*h.KeyDim), h.Heads*(*h.ValueDim)
	const in = "linear_attn."
	three := func(own, q, k, v string) rename {
		return rename{own, []model.Source{{Name: in + q, Share: keys}, {Name: in + k, Share: keys},
			{Name: in + v, Share: values}}}
	}
	m.names = decoderNames("model.norm.", slices.Concat(
		layerNorms("attention_layer_norm", "feedforward_layer_norm"),
		[]rename{to("mlp.norm_after.", "post_feedforward_layernorm.")},
		swiGLU("mlp.", "gate_proj", "up_proj", "down_proj")),
		map[string][]rename{
			"gated-deltanet": {three("in_proj_qkv.", "q_proj.", "k_proj.", "v_proj."),
				three("conv1d.", "q_conv1d.", "k_conv1d.", "v_conv1d."), to("in_proj_z.", in+"g_proj."),
				to("in_proj_b.", in+"b_proj."), to("in_proj_a.", in+"a_proj."), to("norm.", in+"o_norm."),
				to("out_proj.", in+"o_proj."), to("", in)},
			"attention": append(attentionNames("self_attn.", "o_proj", o.hfAttention.Heads, kv),
				to("norm_after.", "post_attention_layernorm.")),
		})
	return m
}

// olmoHeadEps is the epsilon of the norm of each head. The configuration has no influence on it.
const olmoHeadEps = 1e-5
