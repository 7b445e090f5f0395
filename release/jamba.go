package release

// jamba is the family of Jamba (arXiv:2403.19887): Mamba with norms inside, or attention without positions, then an MLP
// or experts.
var jamba = hfFamily{options: func() hfOptions {
	return &jambaOptions{Eps: 1e-6, Period: 8, Offset: 4, Expand: 2, State: 16, Conv: 4, ConvBias: true, Experts: 16,
		Used: 2, ExpertPeriod: 2, ExpertOffset: 1, Balance: 0.001}
}}

type jambaOptions struct {
	hfAttention
	Period  int `json:"attn_layer_period"`
	Offset  int `json:"attn_layer_offset"`
	Experts int `json:"num_experts"`
	Used    int `json:"num_experts_per_tok"`

	Balance      float64 `json:"router_aux_loss_coef"`
	ExpertPeriod int     `json:"expert_layer_period"`
	ExpertOffset int     `json:"expert_layer_offset"`

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

func (o *jambaOptions) model(c *hfCommon) (m published) {
	c.wantAct("hidden_act", o.Act, "silu")
	c.someLayers()
	if o.Period < 1 || o.ExpertPeriod < 1 || o.Offset < 0 || o.ExpertOffset < 0 {
		return c.failf("attn_layer_period, expert_layer_period, attn_layer_offset, expert_layer_offset: found "+
			"%d, %d, %d and %d, want periods of 1 or more and offsets of 0 or more", o.Period, o.ExpertPeriod, o.Offset,
			o.ExpertOffset)
	}
	experts, half := []rename(nil), ""
	if o.Experts > 1 {
		if !c.someExperts("num_experts, num_experts_per_tok", o.Experts, o.Used) {
			return m
		}
		half = "/" + entry("swiglu-experts", given{"experts": o.Experts, "top_k": o.Used, "d_inner": o.Inner,
			"normalize": false, "balance": o.Balance})
		experts = append(expertNames("mlp.", "feed_forward.", o.Experts, "gate_proj", "up_proj", "down_proj"),
			to("mlp.router.", "feed_forward.router."))
	}
	attention, _, kv := o.hfAttention.options(c, 8)
	mamba := entry("mamba", given{
		"expand": o.Expand, "d_state": o.State, "d_conv": o.Conv, "dt_rank": rank(o.Rank, c.Hidden), "bias": o.MixBias,
		"conv_bias": o.ConvBias, "bcdt_norm": "learned", "norm_eps": o.Eps,
	})
	layers := make([]string, c.Layers)
	for i := range layers {
		layers[i] = mamba
		if i%o.Period == o.Offset {
			layers[i] = entry("attention", attention)
		}
		if i%o.ExpertPeriod == o.ExpertOffset {
			layers[i] += half
		}
	}
	m.config = newHFConfig(layers, entry("swiglu", given{"bias": false}), o.Eps)
	m.config.DInner = o.Inner
	m.names = jambaNames(o.hfAttention.Heads, kv)
	m.names.layer = append(m.names.layer, experts...)
	return m
}

// rank returns the mixer's dt_rank. It is 0, the default, for d_model/16 rounded up.
func rank(r auto, hidden int) int {
	if int(r) == (hidden+15)/16 {
		return 0
	}
	return int(r)
}
