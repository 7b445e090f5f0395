package release

import (
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// ggufLlama reads Llama, Mistral, Qwen2 and Qwen3: attention with rotary positions in every layer, then a gated MLP.
// The rows of queries and keys of Llama and Mistral are reordered: see interleaved.
func ggufLlama(k *ggufKeys, p *published) {
	if k.hasExperts() {
		k.failf(k.arch+".expert_count", "found experts, want none")
	}
	attention, heads, kv, headDim := k.attention()
	attention = k.rotated(attention, headDim, 10000)
	if k.arch == "qwen3" {
		attention = attention.with(given{"qk_norm": true, "norm_eps": p.config.LayerNormEpsilon})
	}
	mixer := entry("attention", attention)
	k.layers(p, ggufSwiGLU(given{"bias": k.hasInLayers("ffn_up.bias")}), func(int) string { return mixer })
	p.names = ggufNames(ggufTwoNorms, map[string][]rename{"attention": ggufAttentionNames(heads, kv)})
	if k.arch == llamaArch {
		p.forms = ggufForms{}
		k.interleaved(p.forms, heads, kv, headDim)
	}
}

// llamaArch is the name of the architecture of Llama and Mistral.
const llamaArch = "llama"

// ggufGPT2 reads GPT-2: learned positions, attention in every layer, then an MLP with GELU.
func ggufGPT2(k *ggufKeys, p *published) {
	layer := entry("attention", given{"num_heads": k.most("attention.head_count")})
	k.layers(p, model.MLPGelu, func(int) string { return layer })
	p.config.Norm, p.config.MaxPositions = model.NormLayer, k.size("context_length", 1)
	p.names = ggufNames(slices.Concat(layerNorms("attn_norm", "ffn_norm"),
		[]rename{to("mlp.fc1.", "ffn_up."), to("mlp.fc2.", "ffn_down.")}),
		map[string][]rename{"attention": {to("Wqkv.", "attn_qkv."), to("out_proj.", "attn_output.")}})
	p.names.positions = "position_embd."
}
