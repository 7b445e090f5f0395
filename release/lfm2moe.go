package release

// lfm2MoE is the family of LFM2 with experts (Liquid AI). They replace the MLP in all layers except the first ones.
var lfm2MoE = hfFamily{tied: true, options: func() hfOptions {
	o := lfm2.options().(*lfm2Options)
	o.Adjust = false
	return &lfm2MoEOptions{lfm2Options: *o, Dense: 2, Experts: 32, Used: 4, Expert: 1792, Bias: true, Normalize: true,
		Scale: 1}
}}

type lfm2MoEOptions struct {
	lfm2Options
	Dense     int     `json:"num_dense_layers"`
	Experts   int     `json:"num_experts"`
	Used      int     `json:"num_experts_per_tok"`
	Expert    int     `json:"moe_intermediate_size"`
	Bias      bool    `json:"use_expert_bias"`
	Normalize bool    `json:"norm_topk_prob"`
	Scale     float64 `json:"routed_scaling_factor"`
}

func (o *lfm2MoEOptions) model(c *hfCommon) published {
	if !c.someExperts("num_experts, num_experts_per_tok", o.Experts, o.Used) {
		return published{}
	}
	experts := "/" + entry("swiglu-experts", given{"experts": o.Experts, "top_k": o.Used, "d_inner": o.Expert,
		"sigmoid": true, "choice_bias": o.Bias, "normalize": o.Normalize, "epsilon": 1e-6, "scale": o.Scale})
	o.half = func(layer int) string {
		if layer < o.Dense {
			return ""
		}
		return experts
	}
	m := o.lfm2Options.model(c)
	m.names.layer = append(m.names.layer, expertNames("mlp.", "feed_forward.", o.Experts, "w1", "w3", "w2")...)
	m.names.layer = append(m.names.layer, to("mlp.router.weight", "feed_forward.gate.weight"),
		to("mlp.router.bias", "feed_forward.expert_bias"))
	return m
}
