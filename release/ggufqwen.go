package release

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
)

// ggufQwen35 reads Qwen3.5 and, with experts, Qwen3.5-MoE and Qwen3-Next: gated delta networks, in every few layers
// attention with a gate, then an MLP or experts. Norms multiply by 1 + w, and a file stores 1 + w, except for the norm
// of the heads. If several value heads share a key head, all files except Qwen3-Next's have the value heads in another
// order: see tiledHeads.
func ggufQwen35(k *ggufKeys, p *published) {
	attention, heads, kv, headDim := k.attention()
	attention = k.rotated(attention, headDim, 10000).with(given{"norm_eps": p.config.LayerNormEpsilon})
	d := k.delta()
	p.forms = ggufForms{"ssm_conv1d.weight": {squeeze: true}, "ssm_a": {negExp: true},
		"ffn_gate_inp_shexp.weight": {row: true}}
	for _, name := range []string{"attn_norm", "post_attention_norm", "attn_q_norm", "attn_k_norm", "output_norm",
		"nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm"} {
		p.forms[name+".weight"] = ggufForm{plusOne: true}
	}
	var linear []rename
	if k.arch == qwen3NextArch {
		linear = k.joined(d)
	} else if d.heads != d.keyHeads {
		linear = k.tiled(d)
		p.forms["ssm_out.weight"] = ggufForm{columns: tiledHeads(d.keyHeads, d.heads)}
	}
	layer := slices.Concat(layerNorms("attn_norm", "post_attention_norm"), ggufTwoNorms[2:])
	mlp := ggufSwiGLU(nil)
	if k.arch != "qwen35" {
		experts, n := k.experts(k.size("expert_feed_forward_length", 1))
		mlp = entry("swiglu-experts", experts.with(given{"shared_gate": true, "normalize": true,
			"d_shared": k.size("expert_shared_feed_forward_length", 1), "scale": k.number("expert_weights_scale", 1)}))
		layer = slices.Concat(layer, ggufExpertNames("mlp.", n), ggufRouterNames("mlp."))
	}
	delta, gated := entry("gated-deltanet", d.options(p.config.LayerNormEpsilon)), entry("gated-attention", attention)
	recurrent := k.recurrent()
	k.layers(p, mlp, func(layer int) string {
		if recurrent[layer] {
			return delta
		}
		return gated
	})
	p.config.Norm = model.NormRMSPlusOne
	p.names = ggufNames(layer, map[string][]rename{"gated-attention": ggufAttentionNames(2*heads, kv),
		"gated-deltanet": append(linear, to("in_proj_qkv.", "attn_qkv."), to("in_proj_z.", "attn_gate."),
			to("in_proj_b.", "ssm_beta."), to("in_proj_a.", "ssm_alpha."), to("conv1d.", "ssm_conv1d."),
			to("A_log", "ssm_a"), to("dt_bias", "ssm_dt.bias"), to("norm.", "ssm_norm."), to("out_proj.", "ssm_out."))})
	p.mtp, p.names.mtp, p.names.apart = gated, ggufMTP(k.blocks()), k.guessing()
}

// qwen3NextArch is the name of the architecture of Qwen3-Next.
const qwen3NextArch = "qwen3next"

// delta returns the sizes of gated delta networks. After a problem it returns sizes of 1.
func (k *ggufKeys) delta() deltaSizes {
	d := deltaSizes{keyHeads: k.size("ssm.group_count", 1), heads: k.size("ssm.time_step_rank", 1),
		keyDim: k.size("ssm.state_size", 1), taps: k.size("ssm.conv_kernel", 1)}
	inner := k.size("ssm.inner_size", 1)
	d.valueDim = inner / d.heads
	switch {
	case d.heads > maxPieces || d.heads%d.keyHeads != 0:
		k.failf(k.arch+".ssm.time_step_rank", "found %d, want a multiple of ssm.group_count %d, at most %d", d.heads,
			d.keyHeads, maxPieces)
	case inner%d.heads != 0:
		k.failf(k.arch+".ssm.inner_size", "found %d, want a multiple of ssm.time_step_rank %d", inner, d.heads)
	default:
		return d
	}
	return deltaSizes{1, 1, 1, 1, 1}
}

// options returns the options of the mixer.
func (d *deltaSizes) options(eps float64) given {
	return given{"num_k_heads": d.keyHeads, "num_v_heads": d.heads, "head_k_dim": d.keyDim, "head_v_dim": d.valueDim,
		"d_conv": d.taps, "norm_eps": eps}
}

// tiledHeads returns the index in a file of each value head. In the transformers library the value heads of one key
// head are adjacent. In a file they are keyHeads apart: k0v0 k0v1 k1v0 k1v1 becomes k0v0 k1v0 k0v1 k1v1.
func tiledHeads(keyHeads, heads int) []int {
	places := make([]int, heads)
	for i := range places {
		each := heads / keyHeads
		places[i] = i%each*keyHeads + i/each
	}
	return places
}

// tiled returns the names of tensors whose rows include value heads, in the order of files.
func (k *ggufKeys) tiled(d deltaSizes) []rename {
	unit := divisor(2*d.keyHeads*d.keyDim, d.valueDim)
	before, each := 2*d.keyHeads*d.keyDim/unit, d.valueDim/unit // pieces of queries and keys, and of a value head
	if before+d.heads*each > maxPieces {
		k.failf(k.arch+".ssm.group_count, ssm.time_step_rank", "found %d and %d, want sizes that cut the projections "+
			"into at most %d equal pieces", d.keyHeads, d.heads, maxPieces)
		return nil
	}
	rows := func(own, name string, before, each int) rename {
		all := before + d.heads*each
		from := pieces(name, 0, before, all)
		for _, head := range tiledHeads(d.keyHeads, d.heads) {
			from = append(from, pieces(name, before+head*each, each, all)...)
		}
		return rename{own, from}
	}
	return []rename{rows("in_proj_qkv.", "attn_qkv.", before, each), rows("conv1d.", "ssm_conv1d.", before, each),
		rows("in_proj_z.", "attn_gate.", 0, 1), rows("in_proj_b.", "ssm_beta.", 0, 1),
		rows("in_proj_a.", "ssm_alpha.", 0, 1), rows("A_log", "ssm_a", 0, 1), rows("dt_bias", "ssm_dt.bias", 0, 1)}
}

// joined returns the names of Qwen3-Next's projections that one tensor combines, by key heads: b and a and, in files of
// older conversions, all others, too.
func (k *ggufKeys) joined(d deltaSizes) []rename {
	ba := "ssm_ba."
	if other := "ssm_beta_alpha."; k.hasInLayers(other+"weight") && !k.hasInLayers(ba+"weight") {
		ba = other
	}
	names, fit := keyHeadNames(d, "ssm_in.", ba)
	if !fit {
		k.failf(k.arch+".ssm.group_count, ssm.state_size, ssm.inner_size", "found %d heads of %d and %d channels, "+
			"want sizes that cut the projections into at most %d equal pieces", d.keyHeads, d.keyDim,
			d.heads*d.valueDim, maxPieces)
		return nil
	}
	if k.hasInLayers("attn_qkv.weight") || !k.hasInLayers("ssm_in.weight") {
		return names[2:] // those for b and a
	}
	return names
}

// recurrent reports for each layer whether it is a gated delta network. The file has a list, or the interval of layers
// with attention, by default every fourth.
func (k *ggufKeys) recurrent() []bool {
	n := min(k.blocks(), maxLayers)
	layers := make([]bool, n)
	full, v := k.value("attention.recurrent_layers")
	if list, ok := v.([]bool); ok && len(list) >= n {
		return list[:n]
	} else if v != nil {
		k.failf(full, "found %s, want true or false for each of %d layers", brief.Value(v), n)
	}
	interval := k.sizeOr("full_attention_interval", 1, 4)
	for i := range layers {
		layers[i] = (i+1)%interval != 0
	}
	return layers
}

// blocks returns the number of layers without those at the end that predict further tokens.
func (k *ggufKeys) blocks() int {
	all := k.size("block_count", 1)
	guessing := k.sizeOr("nextn_predict_layers", 0, 0)
	if guessing >= all {
		k.failf(k.arch+".nextn_predict_layers", "found %d, want less than block_count %d", guessing, all)
		return all
	}
	return all - guessing
}

// ggufMTP returns the names of the tensors of the layer that predicts one more token.
func ggufMTP(layer int) *mtpNames {
	prefix := fmt.Sprintf("blk.%d.", layer)
	in := prefix + "nextn."
	return &mtpNames{prefix: prefix, layers: "blk.", first: layer, others: map[string]string{
		"mtp.fc.weight": in + "eh_proj.weight", "mtp.pre_fc_norm_embedding.weight": in + "enorm.weight",
		"mtp.pre_fc_norm_hidden.weight": in + "hnorm.weight",
		"backbone.ln_f.weight":          in + "shared_head_norm.weight"}}
}

// guessing returns the prefixes of the names of layers that predict further tokens.
func (k *ggufKeys) guessing() (prefixes []string) {
	for i := k.blocks(); i < k.size("block_count", 1) && k.has(fmt.Sprintf("blk.%d.attn_norm.weight", i)); i++ {
		prefixes = append(prefixes, fmt.Sprintf("blk.%d.", i))
	}
	return prefixes
}

// delta adds the sizes of a gated delta network.
func (v *ggufValuesOf) delta(p part) {
	v.size("ssm.conv_kernel", p.size("d_conv"))
	v.size("ssm.state_size", p.size("head_k_dim"))
	v.size("ssm.group_count", p.size("num_k_heads"))
	v.size("ssm.time_step_rank", p.size("num_v_heads"))
	v.size("ssm.inner_size", p.size("num_v_heads")*p.size("head_v_dim"))
}

// interval adds the interval of layers that are not gated delta networks, if it is regular.
func (v *ggufValuesOf) interval(layers []layerParts) {
	recurrent, regular := make([]bool, len(layers)), true
	for i, l := range layers {
		recurrent[i] = l.kind() == "gated-deltanet"
	}
	every := slices.Index(recurrent, false) + 1
	if every == 0 {
		every = len(layers) + 1
	}
	for i, yes := range recurrent {
		regular = regular && yes == ((i+1)%every != 0)
	}
	if !regular {
		v.add("attention.recurrent_layers", recurrent)
		return
	}
	v.size("full_attention_interval", every)
}

// ggufSections returns the numbers of frequency pairs for the time, the height and the width of a picture. It takes
// them from the published configuration, or uses those that llama.cpp's conversion writes by default. They do not
// affect text.
func ggufSections(arch string, config []byte) checkpoint.GGUFValue {
	sections := []int32{11, 11, 10, 0}
	type text struct {
		Rotary struct {
			Sections []int32 `json:"mrope_section"`
		} `json:"rope_parameters"`
	}
	for _, c := range withTextConfig[text](config) {
		if own := c.Rotary.Sections; len(own) == 3 {
			copy(sections, own)
		}
	}
	return checkpoint.GGUFValue{Key: arch + ".rope.dimension_sections", Value: sections}
}
