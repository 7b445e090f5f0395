package release

import (
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// granite is the family of Granite 4.0-H (IBM): Mamba-2 or attention, then an MLP, with multipliers of the embedding,
// of the outputs that are added to the residual stream, and of the logits.
var granite = hfFamily{options: func() hfOptions {
	return &graniteOptions{hfMambaHybrid: mambaHybridDefaults(), Eps: 1e-6, EmbedScale: 1, LogitScale: 1, ResidScale: 1,
		AttnScale: 1, Balance: 0.001}
}}

type graniteOptions struct {
	hfAttention
	hfMambaHybrid
	Kinds      []string `json:"layer_types"`
	Inner      int      `json:"shared_intermediate_size"`
	Experts    int      `json:"num_local_experts"`
	Used       int      `json:"num_experts_per_tok"`
	Balance    float64  `json:"router_aux_loss_coef"`
	Expert     int      `json:"intermediate_size"`
	Positions  *string  `json:"position_embedding_type"`
	EmbedScale float64  `json:"embedding_multiplier"`
	LogitScale float64  `json:"logits_scaling"`
	ResidScale float64  `json:"residual_multiplier"`
	AttnScale  float64  `json:"attention_multiplier"`
	Eps        float64  `json:"rms_norm_eps"`
	Act        *string  `json:"hidden_act"`
}

func (o *graniteOptions) model(c *hfCommon) (m published) {
	c.wantAct("hidden_act", o.Act, "silu")
	if !(o.LogitScale > 0) {
		return c.failf("logits_scaling: found %g, want more than 0", o.LogitScale)
	}
	if len(o.Kinds) == 0 || len(o.Kinds) != c.Layers {
		return c.failf("layer_types: found %d, want num_hidden_layers %d", len(o.Kinds), c.Layers)
	}
	attention, headDim, kv := o.hfAttention.options(c, o.hfAttention.Heads)
	if o.Positions != nil && *o.Positions == "rope" {
		rotary := c.rotary(10000)
		attention = attention.rotated(headDim, rotary)
	}
	mamba := o.hfMambaHybrid.options(c, 0, o.Eps)
	scaled := given{"out_scale": o.ResidScale}
	mixers := map[string]string{
		"mamba":     entry("mamba2", mamba.with(given{"grouped_norm": o.Groups == 1}).with(scaled)),
		"attention": entry("attention", attention.with(given{"scale": o.AttnScale}).with(scaled)),
	}
	layers := c.entriesOf("layer_types", o.Kinds, mixers, "mamba or attention")
	m.config = newHFConfig(layers, entry("swiglu", given{"bias": false}.with(scaled)), o.Eps)
	m.config.DInner, m.config.EmbedScale, m.config.LogitScale = o.Inner, o.EmbedScale, 1/o.LogitScale
	shared, experts := "mlp.", []rename(nil)
	if o.Experts > 0 {
		if !c.someExperts("num_local_experts, num_experts_per_tok", o.Experts, o.Used) {
			return m
		}
		m.config.MLP = entry("swiglu-experts", given{"experts": o.Experts, "top_k": o.Used, "d_inner": o.Expert,
			"d_shared": o.Inner, "balance": o.Balance}.with(scaled))
		shared, experts = "mlp.shared.", append(stackedNames("mlp.", "block_sparse_moe.input_linear.weight",
			"block_sparse_moe.output_linear.weight", o.Experts), to("mlp.router.", "block_sparse_moe.router.layer."))
	}
	half := func(own string, part int) rename {
		return rename{shared + own, []model.Source{{Name: "shared_mlp.input_linear.", Part: part, Of: 2}}}
	}
	norms := layerNorms("input_layernorm", "post_attention_layernorm")
	m.names = decoderNames("model.norm.", slices.Concat(norms, []rename{half("gate.", 0), half("fc1.", 1),
		to(shared+"fc2.", "shared_mlp.output_linear.")}, experts),
		map[string][]rename{
			"mamba2":    mambaNamesIn("mamba."),
			"attention": attentionNames("self_attn.", "o_proj", o.hfAttention.Heads, kv),
		})
	return m
}
