package release

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
)

// A GGUF file is a whole model. Its values hold the configuration (ggufPublished) and the tokenizer (ReadGGUFTexts).
// Its tensors have names of their own, the same for all families, and some have other shapes and values than in
// published models (ggufParameters). The meanings follow llama.cpp's conversion (conversion/*.py).

// ggufArch describes an architecture of llama.cpp: how to read its models, and which models can be written as it.
type ggufArch struct {
	// model interprets the values: it sets the layers of the model, the names of its tensors and their forms. Writing
	// uses it, too: see ggufShape.
	model func(k *ggufKeys, p *published)
	marks string // kinds of tensors that distinguish it, to suggest it in an error

	mixers string // kinds of its layers, including feed-forward parts that take the position of a mixer
	mlp    string // kinds of feed-forward parts after the mixers
	biases string // tensors of layers that may have a bias, besides the filter and dt
	zeros  string // biases that llama.cpp requires: if a model has none, zeros are written
	twice  bool   // d_inner is twice d_model
	square bool   // the queries of all heads together are as wide as d_model
	baked  bool   // multipliers are multiplied into the weights
	headed bool   // the head has its own weights
	norms  bool   // the epsilon is also written under the name of LayerNorm

	learned  bool // has LayerNorms and learned positions
	embedded bool // has LayerNorms, and one after the embedding

	adapted string // prefixes of the names of tensors that llama.cpp's adapters may change; "" for all products

	copies map[string]string // tensors that are written a second time: from the first name to the second

	plusOne bool   // norms multiply by 1 + w
	family  string // model_type of models to write as this, not as another architecture with the same layers

	fixed map[string]string // options that llama.cpp does not read from a file
}

// ggufArchs contains the supported architectures by name. Each is tested by a golden model (ggufOf), and against
// llama.cpp's logits of written files (docs/models.md).
var ggufArchs = map[string]ggufArch{
	"mamba": {model: ggufMamba, marks: "ssm_a ssm_x ssm_dt", mixers: "mamba", mlp: model.MLPNone,
		zeros: "ssm_conv1d", twice: true},
	"mamba2": {model: ggufMamba2, marks: "ssm_a ssm_norm", mixers: "mamba2", mlp: model.MLPNone, zeros: "ssm_conv1d"},
	"jamba": {model: ggufJamba, marks: "ssm_a ssm_x ssm_dt ssm_b_norm attn_q ffn_down", mixers: "mamba attention",
		mlp: "swiglu swiglu-experts", biases: "attn_q attn_k attn_v", zeros: "ssm_conv1d", twice: true,
		square: true},
	"falcon-h1": {model: ggufFalconH1, marks: "ssm_a attn_q ffn_gate", mixers: "mamba2+attention", mlp: "swiglu",
		biases: "attn_q attn_k attn_v ffn_gate ffn_up ffn_down", zeros: "ssm_conv1d", baked: true},
	"granitehybrid": {model: ggufGranite, marks: "ssm_a ssm_norm attn_q ffn_gate", mixers: "mamba2 attention",
		mlp: "swiglu swiglu-experts", biases: "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down",
		zeros: "ssm_conv1d", twice: true},
	"nemotron_h": {model: ggufNemotronH, marks: "ssm_a ssm_norm attn_q ffn_up", mixers: "mamba2 attention relu2",
		mlp: model.MLPNone, biases: "attn_q attn_k attn_v attn_output ffn_up ffn_down", zeros: "ssm_conv1d",
		norms: true},
	"nemotron_h_moe": {model: ggufNemotronH, marks: "ssm_a ssm_norm attn_q ffn_up_exps",
		mixers: "mamba2 attention relu2-experts", mlp: model.MLPNone, biases: "attn_q attn_k attn_v attn_output",
		zeros: "ssm_conv1d exp_probs_b", norms: true, fixed: map[string]string{"sigmoid": "true"}},
	"lfm2": {model: ggufLFM2, marks: "shortconv attn_q attn_q_norm ffn_gate", mixers: "gated-conv attention",
		mlp: "swiglu", square: true},
	"lfm2moe": {model: ggufLFM2, marks: "shortconv attn_q attn_q_norm ffn_gate_exps",
		mixers: "gated-conv attention", mlp: "swiglu swiglu-experts", zeros: "exp_probs_b", square: true,
		fixed: map[string]string{"normalize": "true", "scale": "1"}},
	"gpt2": {model: ggufGPT2, marks: "position_embd attn_qkv ffn_up", mixers: "attention", mlp: model.MLPGelu,
		biases: "attn_norm ffn_norm output_norm attn_qkv attn_output ffn_up ffn_down", square: true, norms: true,
		learned: true},
	"rwkv7": {model: ggufRWKV7, marks: "time_mix_w0 time_mix_r_k channel_mix_key", mixers: "rwkv7", mlp: "channel-mix",
		biases: "attn_norm attn_norm_2 time_mix_ln output_norm token_embd_norm", norms: true, embedded: true,
		copies: ggufRWKV7Copies, adapted: "time_mix_receptance time_mix_key time_mix_value time_mix_output " +
			"channel_mix_"},
	llamaArch: {model: ggufLlama, marks: "attn_q attn_k ffn_gate", mixers: "attention", mlp: "swiglu"},
	"qwen2": {model: ggufLlama, marks: "attn_q attn_k ffn_gate", mixers: "attention", mlp: "swiglu",
		biases: "attn_q attn_k attn_v"},
	"qwen3": {model: ggufLlama, marks: "attn_q attn_q_norm ffn_gate", mixers: "attention", mlp: "swiglu"},
	"qwen35": {model: ggufQwen35, marks: "ssm_a ssm_alpha attn_qkv attn_q ffn_gate",
		mixers: "gated-deltanet gated-attention", mlp: "swiglu", plusOne: true},
	"qwen35moe": {model: ggufQwen35, marks: "ssm_a ssm_alpha attn_qkv attn_q ffn_gate_exps",
		mixers: "gated-deltanet gated-attention", mlp: "swiglu-experts", plusOne: true,
		fixed: map[string]string{"scale": "1"}},
	kimiArch: {model: ggufKimi, marks: "ssm_a ssm_f_a ssm_conv1d_q attn_kv_a_mqa", mixers: "kda mla",
		mlp: "swiglu swiglu-experts", zeros: "exp_probs_b", headed: true, adapted: "ffn_"},
	qwen3NextArch: {model: ggufQwen35, marks: "ssm_a ssm_ba attn_qkv attn_q ffn_gate_exps",
		mixers: "gated-deltanet gated-attention", mlp: "swiglu-experts", plusOne: true, family: "qwen3_next",
		fixed: map[string]string{"scale": "1"}},
}

// ggufHead is the name of the head's weights. A file has no such tensor if the head shares the embedding's weights.
const ggufHead = "output.weight"

// ggufNames returns the tensor names of a model with the given norms and mixers.
func ggufNames(layer []rename, mixers map[string][]rename) hfNames {
	return hfNames{embedding: []string{"token_embd."}, norm: "output_norm.", head: ggufHead, layers: "blk.",
		layer: layer, mixers: mixers, ignored: []string{ggufDivisors}}
}

// ggufMambaNames contains the tensor names of Mamba and Mamba-2.
var ggufMambaNames = []rename{
	to("in_proj.", "ssm_in."), to("conv1d.", "ssm_conv1d."), to("x_proj.", "ssm_x."), to("dt_proj.", "ssm_dt."),
	to("dt_bias", "ssm_dt.bias"), to("A_log", "ssm_a"), to("D", "ssm_d"), to("norm.", "ssm_norm."),
	to("dt_norm.", "ssm_dt_norm."), to("b_norm.", "ssm_b_norm."), to("c_norm.", "ssm_c_norm."),
	to("out_proj.", "ssm_out."),
}

// IsGGUF reports whether a path is a GGUF file, by its first bytes.
func IsGGUF(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == "GGUF"
}

// ggufPublished reads the configuration of a model and the names of its tensors from the values of a GGUF file. The
// sizes may come from a hostile file, so ggufPublished only computes with them and allocates nothing.
func ggufPublished(f *checkpoint.File) (p published, err error) {
	if err := model.CheckTensors(f); err != nil {
		return p, err
	}
	k, arch, err := ggufKeysOf(f)
	if err == nil {
		p, err = k.published(arch)
	}
	if err == nil {
		err = p.config.Validate()
	}
	if err == nil {
		p, _ = p.asPublished(k)
	}
	if err != nil {
		return p, brief.Error(fmt.Errorf("%s: %w", f.Path(), err))
	}
	return p, nil
}

// unknownArch returns the error for an unsupported architecture.
func unknownArch(name string, f *checkpoint.File) error {
	known := sortedKeys(ggufArchs)
	meant := config.DidYouMean(name, known)
	if nearest := nearestArch(f); meant == "" && nearest != "" {
		meant = " (the nearest by its tensors is " + nearest + ")"
	}
	return fmt.Errorf("general.architecture: found %q, want one of %s%s", name, strings.Join(known, ", "), meant)
}

// nearestArch returns the architecture with the most kinds of tensors in common with a file and, among those, the
// fewest other kinds. It returns "" if no mixer resembles a supported one.
func nearestArch(f *checkpoint.File) string {
	has := map[string]bool{}
	for _, name := range f.Names() {
		part := name[strings.LastIndex(strings.TrimSuffix(strings.TrimSuffix(name, ".weight"), ".bias"), ".")+1:]
		part, _, _ = strings.Cut(part, ".")
		has[part] = true
		if strings.Contains(name, ".shortconv.") {
			has["shortconv"] = true
		}
	}
	best, most := "", -100
	for _, arch := range sortedKeys(ggufArchs) {
		n := 0
		for _, mark := range strings.Fields(ggufArchs[arch].marks) {
			if has[mark] {
				n += 2
			} else {
				n -= 3
			}
		}
		if n > most {
			best, most = arch, n
		}
	}
	if !has["ssm_a"] && !has["shortconv"] && !has["attn_q"] && !has["attn_qkv"] {
		return ""
	}
	return best
}
