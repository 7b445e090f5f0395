package release

import (
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// nemotronH is the family of Nemotron-H (arXiv:2504.03624): each layer is a Mamba-2, an attention, an MLP with a
// squared ReLU, or experts that are such MLPs.
var nemotronH = hfFamily{options: func() hfOptions {
	return &nemotronOptions{OldHeadDim: 128, Eps: 1e-5, Conv: 4, ConvBias: true, Groups: 8, State: 128,
		MambaHeads: 128, MambaHeadDim: 64,
		nemotronExperts: nemotronExperts{Used: 2, Normalize: true, Scale: 1, Groups: 1, TopGroups: 1}}
}}

type nemotronOptions struct {
	hfAttention
	Pattern      string   `json:"hybrid_override_pattern"`
	Kinds        []string `json:"layers_block_type"`
	OldHeadDim   int      `json:"attention_head_dim"`
	Inner        int      `json:"intermediate_size"`
	MLPBias      bool     `json:"mlp_bias"`
	MLPAct       *string  `json:"mlp_hidden_act"`
	MambaAct     *string  `json:"mamba_hidden_act"`
	MambaHeads   int      `json:"mamba_num_heads"`
	MambaHeadDim int      `json:"mamba_head_dim"`
	State        int      `json:"ssm_state_size"`
	Groups       int      `json:"n_groups"`
	Conv         int      `json:"conv_kernel"`
	UseBias      bool     `json:"use_bias"`
	ConvBias     bool     `json:"use_conv_bias"`
	Limit        []number `json:"time_step_limit"`
	Eps          float64  `json:"layer_norm_epsilon"`
	nemotronExperts
}

// nemotronKinds maps letters to kinds of layers.
var nemotronKinds = map[rune]string{'M': "mamba", '*': "attention", '-': "mlp", 'E': "moe"}

// kinds returns the kinds of all layers.
func (o *nemotronOptions) kinds(c *hfCommon) (kinds []string) {
	for _, kind := range o.Kinds {
		kinds = append(kinds, kindOf(kind))
	}
	if len(o.Kinds) > 0 {
		return kinds
	}
	for _, letter := range o.Pattern {
		kind, ok := nemotronKinds[letter]
		if !ok {
			c.failf("hybrid_override_pattern: found %q, want M, *, - or E", letter)
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

func (o *nemotronOptions) model(c *hfCommon) (m published) {
	c.wantAct("mlp_hidden_act", o.MLPAct, "relu2")
	c.wantAct("mamba_hidden_act", o.MambaAct, "silu")
	kinds := o.kinds(c)
	c.Layers = len(kinds) // even if the field of that name differs
	c.someLayers()
	if o.HeadDim == nil {
		o.HeadDim = &o.OldHeadDim
	}
	attention, _, kv := o.hfAttention.options(c, 8)
	limits := c.dtLimits(o.Limit)
	mixers := map[string]string{
		"mamba": entry("mamba2", limits.with(innerOptions(o.MambaHeads*o.MambaHeadDim, c.Hidden)).with(
			headDimOption(o.MambaHeadDim, o.MambaHeads*o.MambaHeadDim)).with(given{
			"d_state": o.State, "ngroups": o.Groups, "d_conv": o.Conv, "bias": o.UseBias,
			"conv_bias": o.ConvBias, "norm_eps": o.Eps,
		})),
		"attention": entry("attention", attention),
		"mlp":       entry("relu2", given{"bias": o.MLPBias}),
	}
	var experts []rename
	if slices.Contains(kinds, "moe") {
		if !c.someExperts("n_routed_experts, num_experts_per_tok", o.Experts, o.Used) {
			return m
		}
		if o.MLPBias {
			return c.failf("mlp_bias: found true, want false where there are experts")
		}
		mixers["moe"], experts = o.nemotronExperts.entry(), o.nemotronExperts.names()
	}
	layers := c.entriesOf("layers_block_type", kinds, mixers, "mamba, attention, mlp or moe")
	m.config = newHFConfig(layers, model.MLPNone, o.Eps)
	m.config.DInner = o.Inner
	m.names = hfNames{
		embedding: []string{"backbone.embeddings.", "backbone.embedding."}, norm: "backbone.norm_f.",
		layers: "backbone.layers.", layer: []rename{to("norm.", "norm.")}, apart: []string{"mtp."},
		mixers: map[string][]rename{
			"mamba2":        mambaNamesIn("mixer."),
			"attention":     attentionNames("mixer.", "o_proj", o.hfAttention.Heads, kv),
			"relu2-experts": experts,
			"relu2":         {to("fc1.", "mixer.up_proj."), to("fc2.", "mixer.down_proj.")},
		},
	}
	return m
}

// nemotronExperts holds the fields of a mixture of experts.
type nemotronExperts struct {
	Experts   int     `json:"n_routed_experts"`
	Used      int     `json:"num_experts_per_tok"`
	Expert    int     `json:"moe_intermediate_size"`
	Shared    int     `json:"moe_shared_expert_intermediate_size"`
	Latent    *int    `json:"moe_latent_size"`
	Normalize bool    `json:"norm_topk_prob"`
	Scale     float64 `json:"routed_scaling_factor"`
	Groups    int     `json:"n_group"`
	TopGroups int     `json:"topk_group"`
}

func (o *nemotronExperts) entry() string {
	options := given{"experts": o.Experts, "top_k": o.Used, "d_inner": o.Expert, "d_shared": o.Shared, "sigmoid": true,
		"choice_bias": true, "normalize": o.Normalize, "epsilon": 1e-20, "scale": o.Scale}
	if o.Groups > 1 {
		options = options.with(given{"groups": o.Groups, "top_groups": o.TopGroups})
	}
	if o.Latent != nil {
		options = options.with(given{"d_latent": *o.Latent})
	}
	return entry("relu2-experts", options)
}

// names returns the names of the tensors of experts.
func (o *nemotronExperts) names() []rename {
	return append(expertNames("", "mixer.", o.Experts, "", "up_proj", "down_proj"),
		to("router.weight", "mixer.gate.weight"), to("router.bias", "mixer.gate.e_score_correction_bias"),
		to("narrow.", "mixer.fc1_latent_proj."), to("widen.", "mixer.fc2_latent_proj."),
		to("shared.fc1.", "mixer.shared_experts.up_proj."), to("shared.fc2.", "mixer.shared_experts.down_proj."))
}
