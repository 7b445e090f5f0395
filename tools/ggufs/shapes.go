package main

import (
	"fmt"
	"slices"
)

// shapes holds the models by name, with their published configurations.
var shapes = map[string]func(f *file){
	"mamba-130m": mamba130, "mamba2-130m": mamba2of130, "gpt2-124m": gpt2,
	"granite-4.0-h-350m": granite, "falcon-h1-0.5b": falconH1, "lfm2-350m": lfm2, "qwen3.5-0.8b": qwen35,
}

// block returns the beginning of the names of a layer's tensors.
func block(i int) string { return fmt.Sprintf("blk.%d.", i) }

func mamba130(f *file) {
	const d, inner, state, rank = 768, 1536, 16, 48
	layers, _ := f.begin("mamba", d, 24, 50280)
	f.size("feed_forward_length", 0)
	f.size("attention.head_count", 0)
	f.number("attention.layer_norm_rms_epsilon", 1e-5)
	f.size("ssm.conv_kernel", 4)
	f.size("ssm.inner_size", inner)
	f.size("ssm.state_size", state)
	f.size("ssm.time_step_rank", rank)
	f.truth("ssm.dt_b_c_rms", false)
	for i := range layers {
		b := block(i)
		f.vector(b+"attn_norm.weight", one, d)
		f.matrix(b+"ssm_in", 2*inner, d)
		f.vector(b+"ssm_conv1d.weight", func(int) float64 { return 0.3 * f.random.NormFloat64() }, inner, 4)
		f.vector(b+"ssm_conv1d.bias", f.small, inner)
		f.matrix(b+"ssm_x", rank+2*state, inner)
		f.matrix(b+"ssm_dt", inner, rank)
		f.vector(b+"ssm_dt.bias", f.timeStep, inner)
		f.vector(b+"ssm_a", func(i int) float64 { return -1 - float64(i%state) }, inner, state)
		f.vector(b+"ssm_d", one, inner)
		f.matrix(b+"ssm_out", d, inner)
	}
	f.vector("output_norm.weight", one, d)
}

func mamba2of130(f *file) {
	const d, inner, state, heads = 768, 1536, 128, 24
	layers, _ := f.begin("mamba2", d, 24, 50288)
	f.size("feed_forward_length", 0)
	f.size("attention.head_count", 0)
	f.number("attention.layer_norm_rms_epsilon", 1e-5)
	f.mamba2Sizes(inner, heads, state)
	for i := range layers {
		f.vector(block(i)+"attn_norm.weight", one, d)
		f.mamba2(block(i), d, inner, heads, state, true)
	}
	f.vector("output_norm.weight", one, d)
}

// gpt2 is GPT-2 with 124M parameters, only for llama.cpp.
func gpt2(f *file) {
	const d = 768
	layers, _ := f.begin("gpt2", d, 12, 50264)
	f.size("feed_forward_length", 4*d)
	f.size("attention.head_count", 12)
	f.number("attention.layer_norm_epsilon", 1e-5)
	f.vector("position_embd.weight", f.small, 16384, d)
	norm := func(name string) {
		f.vector(name+".weight", one, d)
		f.vector(name+".bias", f.small, d)
	}
	linear := func(name string, n, k int) {
		f.matrix(name, n, k)
		f.vector(name+".bias", f.small, n)
	}
	for i := range layers {
		b := block(i)
		norm(b + "attn_norm")
		linear(b+"attn_qkv", 3*d, d)
		linear(b+"attn_output", d, d)
		norm(b + "ffn_norm")
		linear(b+"ffn_up", 4*d, d)
		linear(b+"ffn_down", d, 4*d)
	}
	norm("output_norm")
}

// headsOf returns the number of key heads of each layer: kv in the layers that have attention, and 0 in all others. If
// there are too few layers for any of those, the last layer has attention.
func headsOf(kv int32, attention []int, layers int) []int32 {
	all := make([]int32, layers)
	for i := range all {
		if slices.Contains(attention, i) {
			all[i] = kv
		}
	}
	if slices.Max(all) == 0 {
		all[layers-1] = kv
	}
	return all
}

// granite is Granite-4.0-H-350M.
func granite(f *file) {
	const d, inner, heads, state, mlp = 768, 1536, 48, 128, 2048
	layers, _ := f.begin("granitehybrid", d, 32, 100352)
	kv := headsOf(4, []int{10, 13, 17, 27}, layers)
	f.size("feed_forward_length", mlp)
	f.size("attention.head_count", 12)
	f.sizes("attention.head_count_kv", kv)
	f.number("attention.layer_norm_rms_epsilon", 1e-5)
	f.number("attention.scale", 0.015625)
	f.number("embedding_scale", 12)
	f.number("residual_scale", 0.246)
	f.number("logit_scale", 3)
	f.truth("rope.scaling.finetuned", false)
	f.size("rope.dimension_count", d/12)
	f.size("expert_count", 0)
	f.size("expert_used_count", 0)
	f.mamba2Sizes(inner, heads, state)
	for i := range layers {
		b := block(i)
		f.vector(b+"attn_norm.weight", one, d)
		if kv[i] > 0 {
			f.attention(b, d, 12, 4, d/12)
		} else {
			f.mamba2(b, d, inner, heads, state, true)
		}
		f.mlp(b, d, mlp, ".weight")
	}
	f.vector("output_norm.weight", one, d)
}

// falconH1 is Falcon-H1-0.5B, whose multipliers are in its weights.
func falconH1(f *file) {
	const d, inner, heads, state, mlp, headDim = 1024, 1536, 24, 128, 2048, 64
	layers, vocab := f.begin("falcon-h1", d, 36, 32784)
	f.size("feed_forward_length", mlp)
	f.size("attention.head_count", 8)
	f.size("attention.head_count_kv", 2)
	f.size("attention.key_length", headDim)
	f.size("attention.value_length", headDim)
	f.number("attention.layer_norm_rms_epsilon", 1e-5)
	f.number("rope.freq_base", 1e11)
	f.mamba2Sizes(inner, heads, state)
	for i := range layers {
		b := block(i)
		f.vector(b+"attn_norm.weight", one, d)
		f.attention(b, d, 8, 2, headDim)
		f.mamba2(b, d, inner, heads, state, false)
		f.mlp(b, d, mlp, "")
	}
	f.vector("output_norm.weight", one, d)
	f.matrix("output", vocab, d)
}

// lfm2 is LFM2-350M.
func lfm2(f *file) {
	const d, mlp, headDim = 1024, 4608, 64
	layers, _ := f.begin("lfm2", d, 16, 65536)
	kv := headsOf(8, []int{2, 5, 8, 10, 12, 14}, layers)
	f.size("feed_forward_length", mlp)
	f.size("attention.head_count", 16)
	f.sizes("attention.head_count_kv", kv)
	f.number("attention.layer_norm_rms_epsilon", 1e-5)
	f.number("rope.freq_base", 1e6)
	f.size("shortconv.l_cache", 3)
	f.size("vocab_size", 65536/f.shrink)
	for i := range layers {
		b := block(i)
		f.vector(b+"attn_norm.weight", one, d)
		if kv[i] > 0 {
			f.attention(b, d, 16, 8, headDim)
			f.vector(b+"attn_q_norm.weight", one, headDim)
			f.vector(b+"attn_k_norm.weight", one, headDim)
		} else {
			f.matrix(b+"shortconv.in_proj", 3*d, d)
			f.vector(b+"shortconv.conv.weight", f.small, d, 3)
			f.matrix(b+"shortconv.out_proj", d, d)
		}
		f.mlp(b, d, mlp, ".weight")
	}
	f.vector("token_embd_norm.weight", one, d)
}

// qwen35 is the text model of Qwen3.5-0.8B.
func qwen35(f *file) {
	const d, mlp, heads, kv, headDim, delta, width = 1024, 3584, 8, 2, 256, 16, 128
	layers, _ := f.begin("qwen35", d, 24, 248320)
	every := min(4, layers)
	f.size("feed_forward_length", mlp)
	f.size("attention.head_count", heads)
	f.size("attention.head_count_kv", kv)
	f.size("attention.key_length", headDim)
	f.size("attention.value_length", headDim)
	f.number("attention.layer_norm_rms_epsilon", 1e-6)
	f.number("rope.freq_base", 1e7)
	f.size("rope.dimension_count", headDim/4)
	f.sizes("rope.dimension_sections", []int32{11, 11, 10, 0})
	f.size("full_attention_interval", every)
	f.size("ssm.conv_kernel", 4)
	f.size("ssm.state_size", width)
	f.size("ssm.group_count", delta)
	f.size("ssm.time_step_rank", delta)
	f.size("ssm.inner_size", delta*width)
	for i := range layers {
		b := block(i)
		f.vector(b+"attn_norm.weight", one, d)
		if (i+1)%every == 0 {
			f.matrix(b+"attn_q", 2*heads*headDim, d) // queries and gates
			f.matrix(b+"attn_k", kv*headDim, d)
			f.matrix(b+"attn_v", kv*headDim, d)
			f.matrix(b+"attn_output", d, heads*headDim)
			f.vector(b+"attn_q_norm.weight", one, headDim)
			f.vector(b+"attn_k_norm.weight", one, headDim)
		} else {
			f.matrix(b+"attn_qkv", 3*delta*width, d)
			f.matrix(b+"attn_gate", delta*width, d)
			f.matrix(b+"ssm_alpha", delta, d)
			f.matrix(b+"ssm_beta", delta, d)
			f.vector(b+"ssm_conv1d.weight", func(int) float64 { return 0.3 * f.random.NormFloat64() }, 3*delta*width, 4)
			f.vector(b+"ssm_dt.bias", f.timeStep, delta)
			f.vector(b+"ssm_a", f.negative, delta)
			f.vector(b+"ssm_norm.weight", one, width)
			f.matrix(b+"ssm_out", d, delta*width)
		}
		f.vector(b+"post_attention_norm.weight", one, d)
		f.matrix(b+"ffn_gate", mlp, d)
		f.matrix(b+"ffn_up", mlp, d)
		f.matrix(b+"ffn_down", d, mlp)
	}
	f.vector("output_norm.weight", one, d)
}
