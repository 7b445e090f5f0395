package release

import "slices"

// xLSTM is the family of xLSTM-7B (arXiv:2503.13427): the matrix memory of an mLSTM, then a gated MLP, and logits with
// a soft cap. Parallel projections are separate tensors (weight_mode "single"), or stacked in one ("fused").
var xLSTM = hfFamily{options: func() hfOptions {
	return &xLSTMOptions{Heads: 8, Keys: 0.5, Values: 1, Inner: 2.667, Multiple: 64, GateCap: pointer(15.0),
		LogitCap: pointer(30.0), Eps: 1e-6, NormEps: 1e-6, LastNorm: true, Mode: "single"}
}}

type xLSTMOptions struct {
	Width    *int     `json:"hidden_size"`
	OldWidth *int     `json:"embedding_dim"`
	Layers   *int     `json:"num_hidden_layers"`
	Blocks   *int     `json:"num_blocks"`
	Heads    int      `json:"num_heads"`
	Keys     float64  `json:"qk_dim_factor"`
	Values   float64  `json:"v_dim_factor"`
	Inner    float64  `json:"ffn_proj_factor"`
	Multiple int      `json:"ffn_round_up_to_multiple_of"`
	GateCap  *float64 `json:"gate_soft_cap"`
	LogitCap *float64 `json:"output_logit_soft_cap"`
	Eps      float64  `json:"eps"`
	NormEps  float64  `json:"norm_eps"`
	LastNorm bool     `json:"add_out_norm"`
	Bias     bool     `json:"use_bias"`
	Mode     string   `json:"weight_mode"`
}

// size returns a size that the two dialects name differently.
func (c *hfCommon) size(field, oldField string, n, old *int, byDefault, most int) int {
	size := byDefault
	set(&size, old)
	set(&size, n)
	switch {
	case n != nil && old != nil && *n != *old:
		c.failf("%s, %s: found %d and %d, want the same, or one of them", field, oldField, *n, *old)
	case size < 1 || size > most:
		c.failf("%s, %s: found %d, want 1 to %d", field, oldField, size, most)
		return 1
	}
	return size
}

// factor returns the product of the width and a factor. It is an error if the product is above most.
func (c *hfCommon) factor(field string, factor float64, most int) float64 {
	x := factor * float64(c.Hidden)
	if !(x >= 1 && x <= float64(most)) {
		c.failf("%s: found %g, want a factor that makes 1 to %d of a width of %d", field, factor, most, c.Hidden)
		return 1
	}
	return x
}

// maxInner is the maximum number of channels of an MLP.
const maxInner = 1 << 24

// check records errors for unsupported settings.
func (o *xLSTMOptions) check(c *hfCommon) {
	c.Hidden = c.size("hidden_size", "embedding_dim", o.Width, o.OldWidth, 4096, maxWidth)
	c.Layers = c.size("num_hidden_layers", "num_blocks", o.Layers, o.Blocks, 32, maxLayers)
	switch {
	case o.Heads < 1:
		c.failf("num_heads: found %d, want at least 1", o.Heads)
	case o.Multiple < 1 || o.Multiple > maxInner:
		c.failf("ffn_round_up_to_multiple_of: found %d, want 1 to %d", o.Multiple, maxInner)
	case !(o.Eps >= 0):
		c.failf("eps: found %g, want 0 or more", o.Eps)
	case !(o.NormEps > 0):
		c.failf("norm_eps: found %g, want more than 0", o.NormEps)
	case o.LogitCap != nil && !(*o.LogitCap > 0):
		c.failf("output_logit_soft_cap: found %g, want more than 0, or null for none", *o.LogitCap)
	case o.GateCap != nil && !(*o.GateCap > 0):
		c.failf("gate_soft_cap: found %g, want more than 0, or null for none", *o.GateCap)
	case !o.LastNorm:
		c.failf("add_out_norm: found false, want true")
	case o.Bias:
		c.failf("use_bias: found true, want false")
	case o.Mode != "single" && o.Mode != "fused":
		c.failf("weight_mode: found %q, want single or fused", o.Mode)
	}
}

func (o *xLSTMOptions) model(c *hfCommon) (m published) {
	o.check(c)
	keys := int(c.factor("qk_dim_factor", o.Keys, maxWidth))
	values := int(c.factor("v_dim_factor", o.Values, maxWidth))
	inner := int(c.factor("ffn_proj_factor", o.Inner, maxInner)+float64(o.Multiple)-1) / max(1, o.Multiple) * o.Multiple
	if o.Heads > 0 && (keys%o.Heads != 0 || values%o.Heads != 0) {
		c.failf("qk_dim_factor, v_dim_factor: found %g and %g, which make %d and %d of a width of %d, want "+
			"multiples of num_heads %d", o.Keys, o.Values, keys, values, c.Hidden, o.Heads)
	}
	if c.err != nil {
		return m
	}
	var gateCap, logitCap float64
	set(&gateCap, o.GateCap)
	set(&logitCap, o.LogitCap)
	layer := entry("mlstm", given{"num_heads": o.Heads, "qk_dim": keys, "v_dim": values, "gate_soft_cap": gateCap,
		"eps": o.Eps, "norm_eps": o.NormEps})
	m.config = newHFConfig(slices.Repeat([]string{layer}, c.Layers), entry("swiglu", given{"bias": false}), o.NormEps)
	m.config.DInner, m.config.LogitCap = inner, logitCap
	mixer, mlp := []rename{to("", "mlstm_layer.")}, swiGLU("ffn.", "proj_up_gate", "proj_up", "proj_down")
	if o.Mode == "fused" {
		mixer, mlp = append(o.fused(c, keys, values), mixer...), append([]rename{
			{"mlp.gate.", pieces("ffn.proj_up_gate_z.", 0, 1, 2)},
			{"mlp.fc1.", pieces("ffn.proj_up_gate_z.", 1, 1, 2)}}, mlp...)
	}
	m.names = hfNames{
		embedding: []string{"backbone.embeddings."}, norm: "backbone.out_norm.", layers: "backbone.blocks.",
		layer: append(layerNorms("norm_mlstm", "norm_ffn"), mlp...), mixers: map[string][]rename{"mlstm": mixer},
	}
	return m
}

// fused returns the names of projections whose rows are stacked: those of q, k, v and the output gate in one tensor,
// those of the input gate and the forget gate in another.
func (o *xLSTMOptions) fused(c *hfCommon, keys, values int) []rename {
	unit := divisor(keys, values)
	k, v := keys/unit, values/unit
	all := 2 * (k + v)
	if all > maxPieces {
		c.failf("qk_dim_factor, v_dim_factor: found %g and %g, want factors that cut the fused projections into at "+
			"most %d equal pieces", o.Keys, o.Values, maxPieces)
		return nil
	}
	const qkvo, gates = "mlstm_layer.qkv_opreact.", "mlstm_layer.ifgate_preact."
	return []rename{
		{"q.", pieces(qkvo, 0, k, all)}, {"k.", pieces(qkvo, k, k, all)}, {"v.", pieces(qkvo, 2*k, v, all)},
		{"ogate_preact.", pieces(qkvo, 2*k+v, v, all)},
		{"igate_preact.", pieces(gates, 0, 1, 2)}, {"fgate_preact.", pieces(gates, 1, 1, 2)},
	}
}
