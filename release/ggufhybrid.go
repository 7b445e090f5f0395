package release

import (
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// ggufAttentionNames returns the names of attention. The numbers of query and key heads determine the order of rows.
func ggufAttentionNames(heads, kvHeads int) []rename {
	return []rename{
		{"Wqkv.", []model.Source{{Name: "attn_q.", Share: heads}, {Name: "attn_k.", Share: kvHeads},
			{Name: "attn_v.", Share: kvHeads}}},
		to("out_proj.", "attn_output."), to("q_norm.", "attn_q_norm."), to("k_norm.", "attn_k_norm."),
	}
}

// ggufTwoNorms contains the names of a layer's two norms and of its gated MLP.
var ggufTwoNorms = append(layerNorms("attn_norm", "ffn_norm"), swiGLU("", "ffn_gate", "ffn_up", "ffn_down")...)

// each returns a size for each layer. The file has one number for all layers or a list.
func (k *ggufKeys) each(key string) []int {
	layers := min(k.blocks(), maxLayers)
	full, v := k.value(key)
	var list []int
	switch v := v.(type) {
	case []int64:
		for _, n := range v {
			list = append(list, int(n))
		}
	case []uint64:
		for _, n := range v {
			list = append(list, int(min(n, maxGGUFSize+1)))
		}
	default:
		return slices.Repeat([]int{k.size(key, 0)}, layers)
	}
	if all := k.size("block_count", 1); len(list) == all {
		list = list[:layers]
	}
	if len(list) != layers || slices.Min(list) < 0 || slices.Max(list) > maxGGUFSize {
		k.failf(full, "found %d numbers, want one from 0 to %d for each of %d layers", len(list), maxGGUFSize, layers)
		return make([]int, layers)
	}
	return list
}

// most returns the largest size of any layer.
func (k *ggufKeys) most(key string) int { return slices.Max(k.each(key)) }

// number returns the number of a key, or otherwise if the file has none.
func (k *ggufKeys) number(key string, otherwise float64) float64 {
	if _, v := k.value(key); v == nil {
		return otherwise
	}
	return k.positive(key)
}

// attention returns the options of attention, the numbers of its heads and key heads, and the components of a head.
func (k *ggufKeys) attention() (o given, heads, kvHeads, headDim int) {
	d := k.size("embedding_length", 1)
	heads, kvHeads = k.most("attention.head_count"), k.most("attention.head_count_kv")
	if heads < 1 || kvHeads < 1 || heads%kvHeads != 0 {
		k.failf(k.arch+".attention.head_count_kv", "found %d, want a divisor of attention.head_count %d", kvHeads,
			heads)
		return given{}, 1, 1, 1
	}
	headDim = k.sizeOr("attention.key_length", 1, d/heads)
	if v := k.sizeOr("attention.value_length", 1, headDim); v != headDim {
		k.failf(k.arch+".attention.value_length", "found %d, want attention.key_length %d", v, headDim)
	}
	o = given{"num_heads": heads, "bias": k.hasInLayers("attn_q.bias"), "out_bias": k.hasInLayers("attn_output.bias")}
	if kvHeads != heads {
		o["kv_heads"] = kvHeads
	}
	if headDim*heads != d {
		o["head_dim"] = headDim
	}
	return o, heads, kvHeads, headDim
}

// layers sets the layers of a model to entryOf(layer), and the kind and width of the MLPs.
func (k *ggufKeys) layers(p *published, mlp string, entryOf func(layer int) string) {
	n := min(k.blocks(), maxLayers)
	entries := make([]string, n)
	for i := range entries {
		entries[i] = entryOf(i)
	}
	p.config.Layers, p.config.NLayer, p.config.MLP = joinLayers(entries), 0, mlp
	p.config.DInner = 0
	if _, v := k.value("feed_forward_length"); v != nil || !k.hasExperts() { // may be absent if all have experts
		p.config.DInner = k.most("feed_forward_length")
	}
}

// either returns a function that returns attention for layers with key heads, and other for the rest.
func (k *ggufKeys) either(attention, other string) func(int) string {
	kv := k.each("attention.head_count_kv")
	return func(layer int) string {
		if layer < len(kv) && kv[layer] > 0 {
			return attention
		}
		return other
	}
}

// ggufSwiGLU returns the entry of the gated MLP of all these families.
func ggufSwiGLU(more given) string { return entry("swiglu", given{"bias": false}.with(more)) }

// ggufJamba reads Jamba: Mamba with norms inside, or attention without positions.
func ggufJamba(k *ggufKeys, p *published) {
	attention, heads, kv, _ := k.attention()
	mamba := k.mamba().with(given{"bcdt_norm": "learned", "norm_eps": p.config.LayerNormEpsilon})
	p.names = ggufNames(ggufTwoNorms,
		map[string][]rename{"mamba": ggufMambaNames, "attention": ggufAttentionNames(heads, kv)})
	p.forms = ggufMambaForms
	mixer := k.either(entry("attention", attention), entry("mamba", mamba))
	if !k.hasExperts() {
		k.layers(p, ggufSwiGLU(nil), mixer)
		return
	}
	experts, n := k.experts(k.most("feed_forward_length"))
	k.routed(p, experts.with(given{"normalize": false}), n, mixer)
}

// ggufFalconH1 reads Falcon-H1: Mamba-2 and attention in parallel. Its multipliers are in the weights.
func ggufFalconH1(k *ggufKeys, p *published) {
	attention, heads, kv, headDim := k.attention()
	mamba := k.mamba2(p.config.LayerNormEpsilon).with(given{"rmsnorm": k.hasInLayers("ssm_norm.weight")})
	both := entry("mamba2", mamba) + "+" + entry("attention", k.rotated(attention, headDim, 10000))
	k.layers(p, ggufSwiGLU(given{"bias": k.hasInLayers("ffn_up.bias")}), func(int) string { return both })
	layer := slices.Clone(ggufTwoNorms)
	if k.hasInLayers("ffn_norm") { // this name has no ".weight" at its end
		layer = slices.Insert(layer, 0, to("norm2.weight", "ffn_norm"))
	}
	p.names = ggufNames(layer,
		map[string][]rename{"mamba2": ggufMambaNames, "attention": ggufAttentionNames(heads, kv)})
	p.forms = k.mamba2Forms()
}

// ggufPairs is the name of a value that is true if only the rotated components of a head are interleaved. llama.cpp's
// conversion interleaves all components. So if only a part of a head is rotated, as in Bamba, llama.cpp rotates other
// pairs than the definition. In files that hippo writes it rotates the right ones.
const ggufPairs = "hippo.rotated_pairs"

// interleaved adds the forms of queries and keys, which the conversion reorders because llama.cpp rotates neighbours.
// Without rotary positions, the order of components does not matter.
func (k *ggufKeys) interleaved(forms ggufForms, heads, kvHeads, headDim int) {
	rotated := headDim
	if pairs, _ := k.values[ggufPairs].(bool); pairs {
		rotated = k.sizeOr("rope.dimension_count", 1, headDim)
	}
	for _, end := range []string{"weight", "bias"} {
		forms["attn_q."+end] = ggufForm{heads: heads, rotated: rotated}
		forms["attn_k."+end] = ggufForm{heads: kvHeads, rotated: rotated}
	}
}

// ggufGranite reads Granite 4.0-H: Mamba-2 or attention, with multipliers. It also reads Bamba.
func ggufGranite(k *ggufKeys, p *published) {
	attention, heads, kv, headDim := k.attention()
	p.forms = k.mamba2Forms()
	if k.truth("rope.scaling.finetuned") {
		attention = k.rotated(attention, headDim, 10000)
		k.interleaved(p.forms, heads, kv, headDim)
	}
	scaled := given{"out_scale": k.number("residual_scale", 1)}
	attention["scale"] = k.number("attention.scale", 1/math.Sqrt(float64(headDim)))
	mlp, layer := ggufSwiGLU(scaled.with(given{"bias": k.hasInLayers("ffn_up.bias")})), ggufTwoNorms
	if k.hasExperts() {
		experts, n := k.experts(k.most("feed_forward_length"))
		mlp = entry("swiglu-experts",
			experts.with(given{"d_shared": k.sizeOr("expert_shared_feed_forward_length", 0, 0)}).with(scaled))
		layer = slices.Concat(layer, ggufExpertNames("mlp.", n), ggufRouterNames("mlp."))
	}
	k.layers(p, mlp, k.either(entry("attention", attention.with(scaled)),
		entry("mamba2", k.mamba2(p.config.LayerNormEpsilon).with(scaled))))
	p.config.EmbedScale = k.number("embedding_scale", 1)
	p.config.LogitScale = 1 / k.number("logit_scale", 1)
	p.names = ggufNames(layer,
		map[string][]rename{"mamba2": ggufMambaNames, "attention": ggufAttentionNames(heads, kv)})
}

// ggufNemotronH reads Nemotron-H: each layer is a Mamba-2, an attention, an MLP with a squared ReLU, or experts that
// are such MLPs.
func ggufNemotronH(k *ggufKeys, p *published) {
	attention, heads, kv, _ := k.attention()
	mixer := k.either(entry("attention", attention), entry("mamba2", k.mamba2(p.config.LayerNormEpsilon)))
	mlp := entry("relu2", given{"bias": k.hasInLayers("ffn_up.bias")})
	routed, names := "", []rename(nil)
	if k.hasExperts() {
		experts, n := k.experts(k.sizeOr("expert_feed_forward_length", 1, k.most("feed_forward_length")))
		experts = experts.with(k.routing(false)).with(given{"epsilon": 1e-20,
			"d_shared": k.sizeOr("expert_shared_feed_forward_length", 0, 0),
			"d_latent": k.sizeOr("moe_latent_size", 0, 0)})
		routed, names = entry("relu2-experts", experts), slices.Concat(ggufExpertNames("", n), ggufRouterNames(""))
	}
	inner := k.each("feed_forward_length")
	k.layers(p, model.MLPNone, func(layer int) string {
		switch {
		case k.has(fmt.Sprintf("blk.%d.%s", layer, ggufRouter)):
			return routed
		case layer < len(inner) && inner[layer] > 0:
			return mlp
		}
		return mixer(layer)
	})
	p.names = ggufNames([]rename{to("norm.", "attn_norm.")}, map[string][]rename{
		"mamba2": ggufMambaNames, "attention": ggufAttentionNames(heads, kv), "relu2-experts": names,
		"relu2": {to("fc1.", "ffn_up."), to("fc2.", "ffn_down.")},
	})
	p.forms = k.mamba2Forms()
}

// ggufLFM2 reads LFM2: a gated short convolution, or attention with norms of queries and keys, then an MLP or experts.
func ggufLFM2(k *ggufKeys, p *published) {
	attention, heads, kv, headDim := k.attention()
	attention = k.rotated(attention, headDim, 1e6).with(given{"qk_norm": true, "norm_eps": p.config.LayerNormEpsilon})
	conv := entry("gated-conv", given{"d_conv": k.size("shortconv.l_cache", 1),
		"bias": k.hasInLayers("shortconv.in_proj.bias")})
	p.names = ggufNames(ggufTwoNorms, map[string][]rename{
		"gated-conv": {to("in_proj.", "shortconv.in_proj."), to("conv1d.", "shortconv.conv."),
			to("out_proj.", "shortconv.out_proj.")},
		"attention": ggufAttentionNames(heads, kv),
	})
	if !k.has("output_norm.weight") || k.has("token_embd_norm.weight") {
		p.names.norm = "token_embd_norm."
	}
	p.forms = ggufForms{"shortconv.conv.weight": {squeeze: true}}
	mixer := k.either(entry("attention", attention), conv)
	if !k.hasExperts() {
		k.layers(p, ggufSwiGLU(nil), mixer)
		return
	}
	experts, n := k.experts(k.size("expert_feed_forward_length", 1))
	k.routed(p, experts.with(k.routing(true)).with(given{"epsilon": 1e-6}), n, mixer)
}

// hasInLayers reports whether any layer of the file has the given tensor.
func (k *ggufKeys) hasInLayers(part string) bool {
	for i := range min(k.blocks(), maxLayers) {
		if k.has(fmt.Sprintf("blk.%d.%s", i, part)) {
			return true
		}
	}
	return false
}
