package release

import "github.com/hippo-ssm/hippo/model"

// kimiArch is the name of the architecture of Kimi Linear.
const kimiArch = "kimi-linear"

// ggufKimi reads Kimi Linear: Kimi Delta Attention, or multi-head latent attention without positions, then an MLP in
// the first layers and experts in all others. A file stores the two parts of kv_b_proj separately, for each head the
// keys' part as (rank, keys) and the values' part as (values, rank). Axes of size 1 precede others
// (conversion/kimi_linear.py).
func ggufKimi(k *ggufKeys, p *published) {
	heads, shared := k.size("attention.head_count", 1), k.size("rope.dimension_count", 1)
	keys, eps := k.size("attention.key_length_mla", 1)-shared, p.config.LayerNormEpsilon
	if keys < 1 {
		k.failf(k.arch+".attention.key_length_mla", "found %d, want more than rope.dimension_count %d", keys+shared,
			shared)
	}
	kda := entry("kda", given{"num_k_heads": heads, "head_k_dim": k.size("kda.head_dim", 1),
		"d_conv": k.size("ssm.conv_kernel", 1), "gate_bias": false, "norm_eps": eps})
	mla := entry("mla", given{"num_heads": heads, "kv_lora_rank": k.size("attention.kv_lora_rank", 1),
		"qk_nope_head_dim": max(1, keys), "qk_rope_head_dim": shared,
		"v_head_dim": k.size("attention.value_length_mla", 1), "norm_eps": latentEps})
	inner := k.size("expert_feed_forward_length", 1)
	experts, n := k.experts(inner)
	routed := "/" + entry("swiglu-experts", experts.with(k.routing(true)).with(given{"normalize": true,
		"epsilon": 1e-20, "d_shared": k.size("expert_shared_count", 1) * inner}))
	dense, mixer := k.sizeOr("leading_dense_block_count", 0, 0), k.either(mla, kda)
	k.layers(p, ggufSwiGLU(nil), func(layer int) string {
		if layer < dense {
			return mixer(layer)
		}
		return mixer(layer) + routed
	})
	layer := append(ggufTwoNorms[:len(ggufTwoNorms):len(ggufTwoNorms)], ggufExpertNames("mlp.", n)...)
	p.names = ggufNames(append(layer, ggufRouterNames("mlp.")...), map[string][]rename{
		"kda": {
			{"in_proj_qkv.", []model.Source{{Name: "attn_q."}, {Name: "attn_k."}, {Name: "attn_v."}}},
			{"conv1d.", []model.Source{{Name: "ssm_conv1d_q."}, {Name: "ssm_conv1d_k."}, {Name: "ssm_conv1d_v."}}},
			to("in_proj_a.0.", "ssm_f_a."), to("in_proj_a.1.", "ssm_f_b."), to("in_proj_b.", "ssm_beta."),
			to("in_proj_z.0.", "ssm_g_a."), to("in_proj_z.1.", "ssm_g_b."), to("A_log", "ssm_a"),
			to("dt_bias", "ssm_dt.bias"), to("norm.", "ssm_norm."), to("out_proj.", "attn_output."),
		},
		"mla": append(latentNames(heads, "attn_k_b.weight", "attn_v_b.weight"), to("q_proj.", "attn_q."),
			to("kv_a_proj_with_mqa.", "attn_kv_a_mqa."), to("kv_a_layernorm.", "attn_kv_a_norm."),
			to("o_proj.", "attn_output.")),
	})
	p.forms = ggufForms{"ssm_a": {negExp: true, column: true, trim: true}, "ssm_conv1d_q.weight": {trim: true},
		"ssm_conv1d_k.weight": {trim: true}, "ssm_conv1d_v.weight": {trim: true}}
}

// kda adds the sizes of Kimi Delta Attention. It has as many heads as the latent attention.
func (v *ggufValuesOf) kda(p part) {
	v.size("kda.head_dim", p.size("head_k_dim"))
	v.size("ssm.conv_kernel", p.size("d_conv"))
}

// latent adds the sizes of multi-head latent attention, which llama.cpp computes with one head of keys.
func (v *ggufValuesOf) latent(p part) {
	rank, shared := p.size("kv_lora_rank"), p.size("qk_rope_head_dim")
	v.size("attention.head_count", p.size("num_heads"))
	v.size("attention.kv_lora_rank", rank)
	v.size("attention.key_length", rank+shared)
	v.size("attention.value_length", rank)
	v.size("attention.key_length_mla", p.size("qk_nope_head_dim")+shared)
	v.size("attention.value_length_mla", p.size("v_head_dim"))
	v.size("rope.dimension_count", shared)
}
