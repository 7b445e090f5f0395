package release

import (
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// kimiLinear is the family of Kimi Linear (Moonshot AI, arXiv:2510.26692): Kimi Delta Attention, in every fourth layer
// multi-head latent attention without positions, then experts, or an MLP in the first layers.
var kimiLinear = hfFamily{options: func() hfOptions {
	return &kimiOptions{Heads: 32, Inner: 11008, Eps: 1e-6,
		kimiExperts: kimiExperts{Scores: "sigmoid", Normalize: true, Scale: 1, Grouped: true, Groups: 1, TopGroups: 1,
			Step: 1}}
}}

type kimiOptions struct {
	Linear *kimiLinearConfig `json:"linear_attn_config"`
	Heads  int               `json:"num_attention_heads"`
	QRank  *int              `json:"q_lora_rank"`
	Rank   int               `json:"kv_lora_rank"`
	Nope   int               `json:"qk_nope_head_dim"`
	Rope   int               `json:"qk_rope_head_dim"`
	Value  int               `json:"v_head_dim"`
	Plain  bool              `json:"mla_use_nope"`
	Gate   bool              `json:"mla_use_output_gate"`
	Inner  int               `json:"intermediate_size"`
	Eps    float64           `json:"rms_norm_eps"`
	Act    *string           `json:"hidden_act"`
	Next   int               `json:"num_nextn_predict_layers"`
	kimiExperts
}

// kimiLinearConfig holds the numbers of the layers of both kinds, counted from 1, and the sizes of the recurrent ones.
type kimiLinearConfig struct {
	KDA     []int    `json:"kda_layers"`
	Full    []int    `json:"full_attn_layers"`
	HeadDim int      `json:"head_dim"`
	Heads   int      `json:"num_heads"`
	Conv    int      `json:"short_conv_kernel_size"`
	Bound   *float64 `json:"gate_lower_bound"`
}

// latentEps is the epsilon of the norm of latent vectors. The configuration has no influence on it.
const latentEps = 1e-6

func (o *kimiOptions) model(c *hfCommon) (m published) {
	c.wantAct("hidden_act", o.Act, "silu")
	c.someLayers()
	l := o.Linear
	switch {
	case l == nil:
		return c.failf("linear_attn_config: missing, want the layers of both kinds")
	case l.Bound != nil:
		return c.failf("linear_attn_config.gate_lower_bound: found %g, want none", *l.Bound)
	case o.QRank != nil:
		return c.failf("q_lora_rank: found %d, want null: queries by a whole matrix", *o.QRank)
	case !o.Plain:
		return c.failf("mla_use_nope: found false, want true: attention without positions")
	case o.Gate:
		return c.failf("mla_use_output_gate: found true, want false")
	case o.Next != 0:
		return c.failf("num_nextn_predict_layers: found %d, want 0", o.Next)
	}
	for _, x := range []struct {
		field string
		size  int
	}{{"linear_attn_config.head_dim", l.HeadDim}, {"linear_attn_config.num_heads", l.Heads},
		{"linear_attn_config.short_conv_kernel_size", l.Conv}, {"num_attention_heads", o.Heads},
		{"kv_lora_rank", o.Rank}, {"qk_nope_head_dim", o.Nope}, {"qk_rope_head_dim", o.Rope}, {"v_head_dim", o.Value}} {
		if x.size < 1 || x.size > maxWidth {
			c.failf("%s: found %d, want 1 to %d", x.field, x.size, maxWidth)
		}
	}
	experts := o.kimiExperts.entry(c)
	layers := c.entriesOf("linear_attn_config", o.kinds(c), map[string]string{
		"mamba": entry("kda", given{"num_k_heads": l.Heads, "head_k_dim": l.HeadDim, "d_conv": l.Conv,
			"gate_bias": false, "norm_eps": o.Eps}),
		"attention": entry("mla", given{"num_heads": o.Heads, "kv_lora_rank": o.Rank, "qk_nope_head_dim": o.Nope,
			"qk_rope_head_dim": o.Rope, "v_head_dim": o.Value, "norm_eps": latentEps}),
	}, "each layer in one of the lists")
	if c.err != nil {
		return m
	}
	for i := range layers {
		if o.in(i) {
			layers[i] += "/" + experts
		}
	}
	m.config = newHFConfig(layers, entry("swiglu", given{"bias": false}), o.Eps)
	m.config.DInner = o.Inner
	m.names = decoderNames("model.norm.", slices.Concat(layerNorms("input_layernorm", "post_attention_layernorm"),
		swiGLU("mlp.", "gate_proj", "up_proj", "down_proj"), o.kimiExperts.names()),
		map[string][]rename{"kda": kimiDeltaNames("self_attn."), "mla": append(latentNames(o.Heads,
			"self_attn."+latentMatrix+latentKeys, "self_attn."+latentMatrix+latentValues), to("", "self_attn."))})
	m.names.latent = &latentHeads{heads: o.Heads, keys: o.Nope, values: o.Value, rank: o.Rank}
	m.names.spread = []string{".self_attn.A_log"}
	return m
}

// kinds returns the kinds of the layers. Each layer must be in exactly one of the two lists.
func (o *kimiOptions) kinds(c *hfCommon) []string {
	kinds := make([]string, c.Layers)
	for kind, list := range map[string][]int{"linear_attention": o.Linear.KDA, "full_attention": o.Linear.Full} {
		for _, n := range list {
			if n < 1 || n > len(kinds) || kinds[n-1] != "" {
				c.failf("linear_attn_config: found layer %d in kda_layers and full_attn_layers, want each of 1 to %d "+
					"once", n, len(kinds))
				return nil
			}
			kinds[n-1] = kind
		}
	}
	if i := slices.Index(kinds, ""); i >= 0 {
		c.failf("linear_attn_config: found layer %d neither in kda_layers nor in full_attn_layers", i+1)
		return nil
	}
	return kinds
}

// kimiDeltaNames returns the names of Kimi Delta Attention.
func kimiDeltaNames(in string) []rename {
	three := func(own, end string) rename {
		return rename{own, []model.Source{{Name: in + "q_" + end}, {Name: in + "k_" + end}, {Name: in + "v_" + end}}}
	}
	return []rename{three("in_proj_qkv.", "proj."), three("conv1d.", "conv1d."), to("norm.", in+"o_norm."),
		to("in_proj_a.0.", in+"f_a_proj."), to("in_proj_a.1.", in+"f_b_proj."), to("in_proj_b.", in+"b_proj."),
		to("in_proj_z.0.", in+"g_a_proj."), to("in_proj_z.1.", in+"g_b_proj."), to("out_proj.", in+"o_proj."),
		to("", in)}
}

// kimiExperts holds the fields of experts. They are chosen by the sum of score and bias, and weighted by the score
// alone, as in the transformers library, vLLM and llama.cpp. Moonshot's own class also adds the bias to the weights.
type kimiExperts struct {
	Experts   *int     `json:"num_experts"`
	Used      int      `json:"num_experts_per_token"`
	Expert    int      `json:"moe_intermediate_size"`
	Shared    int      `json:"num_shared_experts"`
	Scores    string   `json:"moe_router_activation_func"`
	Normalize bool     `json:"moe_renormalize"`
	Scale     float64  `json:"routed_scaling_factor"`
	Grouped   bool     `json:"use_grouped_topk"`
	Groups    int      `json:"num_expert_group"`
	TopGroups int      `json:"topk_group"`
	Dense     int      `json:"first_k_dense_replace"`
	Step      int      `json:"moe_layer_freq"`
	Narrow    *int     `json:"routed_expert_hidden_size"`
	Residuals *float64 `json:"attn_res_block_size"`
}

// in reports whether a layer has experts.
func (o *kimiExperts) in(layer int) bool {
	return o.Experts != nil && layer >= o.Dense && layer%o.Step == 0
}

// entry returns the entry of the experts, "" for a model without experts.
func (o *kimiExperts) entry(c *hfCommon) string {
	switch {
	case o.Residuals != nil:
		c.failf("attn_res_block_size: found %g, want none", *o.Residuals)
	case o.Narrow != nil:
		c.failf("routed_expert_hidden_size: found %d, want none", *o.Narrow)
	case o.Step < 1:
		c.failf("moe_layer_freq: found %d, want at least 1", o.Step)
	case o.Experts == nil || !c.someExperts("num_experts, num_experts_per_token", *o.Experts, o.Used):
	case o.Scores != "sigmoid":
		c.failf("moe_router_activation_func: found %q, want sigmoid", o.Scores)
	case o.Expert < 1 || o.Expert > maxWidth:
		c.failf("moe_intermediate_size: found %d, want 1 to %d", o.Expert, maxWidth)
	case o.Shared < 0 || o.Shared > maxExperts:
		c.failf("num_shared_experts: found %d, want 0 to %d", o.Shared, maxExperts)
	default:
		options := given{"experts": *o.Experts, "top_k": o.Used, "d_inner": o.Expert, "d_shared": o.Shared * o.Expert,
			"sigmoid": true, "choice_bias": true, "normalize": o.Normalize && o.Used > 1, "epsilon": 1e-20,
			"scale": o.Scale}
		if o.Grouped && o.Groups != 1 {
			if o.Groups < 1 || *o.Experts%o.Groups != 0 || o.TopGroups < 1 || o.TopGroups > o.Groups ||
				o.TopGroups**o.Experts/o.Groups < o.Used {
				c.failf("num_expert_group, topk_group: found %d and %d, want a divisor of num_experts %d and at most "+
					"that many groups, with num_experts_per_token %d", o.Groups, o.TopGroups, *o.Experts, o.Used)
				return ""
			}
			options = options.with(given{"groups": o.Groups, "top_groups": o.TopGroups})
		}
		return entry("swiglu-experts", options)
	}
	return ""
}

// names returns the names of the tensors of experts.
func (o *kimiExperts) names() []rename {
	if o.Experts == nil {
		return nil
	}
	const in = "block_sparse_moe."
	return append(expertNames("mlp.", in, *o.Experts, "w1", "w3", "w2"),
		to("mlp.router.weight", in+"gate.weight"), to("mlp.router.bias", in+"gate.e_score_correction_bias"),
		to("mlp.shared.gate.", in+"shared_experts.gate_proj."), to("mlp.shared.fc1.", in+"shared_experts.up_proj."),
		to("mlp.shared.fc2.", in+"shared_experts.down_proj."))
}
