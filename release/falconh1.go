package release

import (
	"math"
	"slices"
)

// falconH1 is the family of Falcon-H1 (arXiv:2507.22448): Mamba-2 and attention in parallel in every layer, then an
// MLP, with multipliers almost everywhere.
var falconH1 = hfFamily{options: func() hfOptions {
	return &falconH1Options{hfMambaHybrid: mambaHybridDefaults(), Eps: 1e-5}
}}

type falconH1Options struct {
	hfAttention
	hfMambaHybrid
	Inner     int     `json:"intermediate_size"`
	SSMInner  *int    `json:"mamba_d_ssm"`
	Norm      bool    `json:"mamba_rms_norm"`
	NormFirst bool    `json:"mamba_norm_before_gate"`
	OutBias   bool    `json:"projectors_bias"`
	MLPBias   bool    `json:"mlp_bias"`
	Eps       float64 `json:"rms_norm_eps"`
	Act       *string `json:"hidden_act"`

	EmbedScale *float64  `json:"embedding_multiplier"`
	HeadScale  *float64  `json:"lm_head_multiplier"`
	AttnIn     *float64  `json:"attention_in_multiplier"`
	AttnOut    *float64  `json:"attention_out_multiplier"`
	KeyScale   *float64  `json:"key_multiplier"`
	SSMIn      *float64  `json:"ssm_in_multiplier"`
	SSMOut     *float64  `json:"ssm_out_multiplier"`
	SSMScales  []float64 `json:"ssm_multipliers"`
	MLPScales  []float64 `json:"mlp_multipliers"`
}

// factor returns a multiplier: 1 for null.
func factor(x *float64) float64 {
	one := 1.0
	set(&one, x)
	return one
}

// factors returns n multipliers: xs, or ones if xs is nil.
func (c *hfCommon) factors(field string, xs []float64, n int) []float64 {
	if len(xs) == n {
		return xs
	}
	if xs != nil {
		c.failf("%s: found %d numbers, want %d", field, len(xs), n)
	}
	return slices.Repeat([]float64{1}, n)
}

func (o *falconH1Options) model(c *hfCommon) (m published) {
	c.wantAct("hidden_act", o.Act, "silu")
	c.someLayers()
	ssm := c.factors("ssm_multipliers", o.SSMScales, 5)
	mlp := c.factors("mlp_multipliers", o.MLPScales, 2)
	attention, headDim, kv := o.hfAttention.options(c, 8)
	rotary := c.rotary(10000)
	attention = attention.rotated(headDim, rotary).with(given{
		"in_scale": factor(o.AttnIn), "out_scale": factor(o.AttnOut), "out_bias": o.hfAttention.Bias,
	})
	if key := factor(o.KeyScale); key != 1 { // keys are only multiplied with queries
		attention["scale"] = key / math.Sqrt(float64(headDim))
	}
	inner := 0
	set(&inner, o.SSMInner)
	mamba := o.hfMambaHybrid.options(c, inner, o.Eps)
	mamba = mamba.with(given{
		"rmsnorm": o.Norm, "norm_before_gate": o.NormFirst, "bias": false, "in_bias": o.hfMambaHybrid.Bias,
		"out_bias": o.OutBias, "in_scale": factor(o.SSMIn), "out_scale": factor(o.SSMOut),
		"z_scale": ssm[0], "x_scale": ssm[1], "b_scale": ssm[2], "c_scale": ssm[3], "dt_scale": ssm[4],
	})
	both := entry("mamba2", mamba) + "+" + entry("attention", attention)
	m.config = newHFConfig(slices.Repeat([]string{both}, c.Layers),
		entry("swiglu", given{"bias": o.MLPBias, "gate_scale": mlp[0], "out_scale": mlp[1]}), o.Eps)
	m.config.DInner, m.config.EmbedScale, m.config.LogitScale = o.Inner, factor(o.EmbedScale), factor(o.HeadScale)
	m.names = jambaNames(o.hfAttention.Heads, kv)
	return m
}
