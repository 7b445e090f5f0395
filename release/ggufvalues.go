package release

import (
	"maps"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// ggufPartValues maps each kind of part to the function that adds its values. An architecture reads only the values
// that it knows. A value that it does not read is detected by reading the values back (see ggufShapeOf).
var ggufPartValues = map[string]func(v *ggufValuesOf, p part){
	"mamba": func(v *ggufValuesOf, p part) {
		v.size("ssm.time_step_rank", p.size("dt_rank"))
		v.add("ssm.dt_b_c_rms", p.text("bcdt_norm") == "rms")
		v.mamba(p)
	},
	"mamba2": func(v *ggufValuesOf, p part) {
		v.size("ssm.time_step_rank", p.size("d_inner")/max(1, p.size("headdim")))
		v.size("ssm.group_count", p.size("ngroups"))
		v.mamba(p)
	},
	"gated-conv":      func(v *ggufValuesOf, p part) { v.size("shortconv.l_cache", p.size("d_conv")) },
	"attention":       (*ggufValuesOf).attention,
	"gated-attention": (*ggufValuesOf).attention,
	"gated-deltanet":  (*ggufValuesOf).delta,
	"kda":             (*ggufValuesOf).kda,
	"mla":             (*ggufValuesOf).latent,
	"swiglu-experts":  (*ggufValuesOf).experts,
	"relu2-experts":   (*ggufValuesOf).experts,
	"rwkv7": func(v *ggufValuesOf, p part) {
		v.size("wkv.head_size", p.size("head_size"))
		v.size("attention.decay_lora_rank", p.size("w_rank"))
		v.size("attention.iclr_lora_rank", p.size("a_rank"))
		v.size("attention.value_residual_mix_lora_rank", p.size("v_rank"))
		v.size("attention.gate_lora_rank", p.size("g_rank"))
	},
}

// ggufValuesOf collects the values of a model in an architecture.
type ggufValuesOf struct {
	arch   string
	values []checkpoint.GGUFValue
}

func (v *ggufValuesOf) add(key string, value any) {
	v.values = append(v.values, checkpoint.GGUFValue{Key: v.arch + "." + key, Value: value})
}

func (v *ggufValuesOf) size(key string, n int)       { v.add(key, uint32(n)) }
func (v *ggufValuesOf) number(key string, x float64) { v.add(key, float32(x)) }

// scale adds a multiplier unless it is 1, or 0, which means none.
func (v *ggufValuesOf) scale(key string, x float64) {
	if orOne(x) != 1 {
		v.number(key, x)
	}
}

// each adds a size of each layer: one number if all are equal.
func (v *ggufValuesOf) each(key string, sizes []uint32) {
	if slices.Min(sizes) == slices.Max(sizes) {
		v.add(key, sizes[0])
		return
	}
	v.add(key, sizes)
}

// mamba adds the values that Mamba and Mamba-2 share.
func (v *ggufValuesOf) mamba(p part) {
	v.size("ssm.conv_kernel", p.size("d_conv"))
	v.size("ssm.inner_size", p.size("d_inner"))
	v.size("ssm.state_size", p.size("d_state"))
}

// attention adds the sizes of attention and its rotary positions.
func (v *ggufValuesOf) attention(p part) {
	v.size("attention.head_count", p.size("num_heads"))
	v.size("attention.key_length", p.size("head_dim"))
	v.size("attention.value_length", p.size("head_dim"))
	if scale := p.number("scale"); float32(scale*math.Sqrt(p.number("head_dim"))) != 1 {
		v.number("attention.scale", scale)
	}
	rotated := p.size("rotary_emb_dim")
	v.add("rope.scaling.finetuned", rotated > 0) // llama.cpp's name for "has rotary positions" in Granite
	if rotated == 0 {
		return
	}
	v.size("rope.dimension_count", rotated)
	v.number("rope.freq_base", p.number("rotary_base"))
	v.rotaryValues(p)
	if rotated < p.size("head_dim") && p.name == "attention" {
		v.values = append(v.values, checkpoint.GGUFValue{Key: ggufPairs, Value: true})
	}
}

func (v *ggufValuesOf) experts(p part) {
	v.size("expert_count", p.size("experts"))
	v.size("expert_used_count", p.size("top_k"))
	v.size("expert_feed_forward_length", p.size("d_inner"))
	if shared := p.size("d_shared"); shared > 0 {
		v.size("expert_shared_feed_forward_length", shared)
		n := 1
		if v.arch == kimiArch { // it has no separate width of shared experts
			n = shared / max(1, p.size("d_inner"))
		}
		v.size("expert_shared_count", n)
	}
	v.add("expert_weights_norm", p.is("normalize"))
	v.number("expert_weights_scale", p.number("scale"))
	gating := uint32(1)
	if p.is("sigmoid") {
		gating = ggufSigmoid
	}
	v.add("expert_gating_func", gating)
	if groups := p.size("groups"); groups > 1 {
		v.size("expert_group_count", groups)
		v.size("expert_group_used_count", p.size("top_groups"))
	}
	if latent := p.size("d_latent"); latent > 0 {
		v.size("moe_latent_size", latent)
	}
}

// ggufValues returns the values that describe a model: its layers, and the embedding and head around them.
func ggufValues(arch string, c *model.Config, layers []layerParts) []checkpoint.GGUFValue {
	v, seen := &ggufValuesOf{arch: arch}, map[string]bool{}
	v.size("block_count", len(layers))
	v.size("embedding_length", c.DModel)
	v.size("vocab_size", c.PaddedVocab())
	v.number("attention.layer_norm_rms_epsilon", c.LayerNormEpsilon)
	if ggufArchs[arch].norms {
		v.number("attention.layer_norm_epsilon", c.LayerNormEpsilon)
	}
	v.scale("embedding_scale", c.EmbedScale)
	v.scale("logit_scale", 1/float64(orOne(c.LogitScale)))
	v.scale("residual_scale", layers[0].mixers[0].number("out_scale"))
	kv, inner := make([]uint32, len(layers)), make([]uint32, len(layers))
	dense := 0 // layers before the first one with experts
	for i, l := range layers {
		for _, p := range l.all() {
			switch p.name {
			case "attention", "gated-attention":
				kv[i] = uint32(p.size("kv_heads"))
			case "mla":
				kv[i] = 1
			}
			if add := ggufPartValues[p.name]; add != nil && !seen[p.name] {
				add(v, p)
			}
			seen[p.name] = true
			if isFeedForward(p) {
				inner[i] = uint32(p.size("d_inner"))
			}
		}
		if l.mlp.name == "swiglu" && dense == i {
			dense++
		}
	}
	if seen["swiglu"] && seen["swiglu-experts"] { // the only width is that of the layers without experts
		for i, l := range layers {
			if l.mlp.name != "swiglu" {
				inner[i] = inner[max(0, slices.IndexFunc(layers, isDense))]
			}
		}
		v.size("leading_dense_block_count", dense)
	}
	if seen["gated-attention"] { // llama.cpp applies the number of the first layer to all
		kv = slices.Repeat([]uint32{slices.Max(kv)}, len(kv))
		v.interval(layers)
	} else if !seen["attention"] && !seen["mla"] {
		v.size("attention.head_count", 0)
	}
	v.each("attention.head_count_kv", kv)
	v.each("feed_forward_length", inner)
	return v.values
}

func isDense(l layerParts) bool { return l.mlp.name == "swiglu" }

// isFeedForward reports whether a part is a feed-forward part rather than a mixer.
func isFeedForward(p part) bool {
	switch p.name {
	case "swiglu", "swiglu-experts", "relu2", "relu2-experts", "gelu", "channel-mix":
		return true
	}
	return false
}

// bare returns layers, which are all equal, without their multipliers, and the multipliers as factors of tensors, for
// Falcon-H1 (conversion/falcon_h1.py). It also removes the multipliers of c.
func bare(c *model.Config, layers []layerParts) ([]layerParts, ggufForms) {
	first := layers[0]
	plain := layerParts{mixers: slices.Clone(first.mixers), mlp: first.mlp}
	forms := ggufForms{}
	factors := func(name string, all ...rowFactor) {
		if slices.ContainsFunc(all, func(f rowFactor) bool { return f.by != 1 }) {
			forms[name] = ggufForm{factors: all}
		}
	}
	of := func(p part) (out part, take func(key string, plain float64) float64) {
		out = part{p.name, maps.Clone(p.options)}
		return out, func(key string, plain float64) float64 {
			v := out.number(key) / plain
			out.set(key, plain)
			return v
		}
	}
	for i, p := range plain.mixers {
		out, take := of(p)
		in, by := take("in_scale", 1), take("out_scale", 1)
		switch p.name {
		case "attention":
			key := take("scale", 1/math.Sqrt(p.number("head_dim")))
			factors("attn_q.weight", rowFactor{by: in})
			factors("attn_k.weight", rowFactor{by: in * key})
			factors("attn_k.bias", rowFactor{by: key})
			factors("attn_v.weight", rowFactor{by: in})
			factors("attn_output.weight", rowFactor{by: by})
		case "mamba2":
			inner, states := p.size("d_inner"), p.size("ngroups")*p.size("d_state")
			factors("ssm_in.weight", rowFactor{inner, in * take("z_scale", 1)},
				rowFactor{inner, in * take("x_scale", 1)}, rowFactor{states, in * take("b_scale", 1)},
				rowFactor{states, in * take("c_scale", 1)},
				rowFactor{inner / max(1, p.size("headdim")), in * take("dt_scale", 1)})
			factors("ssm_out.weight", rowFactor{by: by})
		}
		plain.mixers[i] = out
	}
	mlp, take := of(plain.mlp)
	gate, by := take("gate_scale", 1), take("out_scale", 1)
	for _, end := range []string{"weight", "bias"} {
		factors("ffn_gate."+end, rowFactor{by: gate})
		factors("ffn_down."+end, rowFactor{by: by})
	}
	plain.mlp = mlp
	exact := func(x float64) float64 {
		if x == 0 {
			return 1
		}
		return x
	}
	factors(ggufTable, rowFactor{by: exact(c.EmbedScale)})
	factors(ggufHead, rowFactor{by: exact(c.LogitScale)})
	c.EmbedScale, c.LogitScale = 1, 1
	return slices.Repeat([]layerParts{plain}, len(layers)), forms
}
