package release

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// llamaNames maps patterns of names in the transformers library to the tensor names of llama.cpp's conversion. The
// first match is used.
var llamaNames = []struct{ pattern, name string }{
	{`^(model\.embed_tokens|backbone\.embeddings?)\.weight$`, "token_embd.weight"},
	{`^model\.embedding_norm\.weight$`, "token_embd_norm.weight"},
	{`^(model\.norm|model\.final_layernorm|backbone\.norm_f)\.weight$`, "output_norm.weight"},
	{`^lm_head\.weight$`, "output.weight"},
	{`\.(\d+)\.(input_layernorm|operator_norm|norm)\.weight$`, "blk.$1.attn_norm.weight"},
	{`\.(\d+)\.(post_attention_layernorm|pre_ff_layernorm|ffn_norm)\.weight$`, "blk.$1.ffn_norm.weight"},
	{`\.(\d+)\.(self_attn|mixer)\.([qkv])_proj\.`, "blk.$1.attn_$3."},
	{`\.(\d+)\.(self_attn|mixer)\.o_proj\.`, "blk.$1.attn_output."},
	{`\.(\d+)\.self_attn\.out_proj\.`, "blk.$1.attn_output."},
	{`\.(\d+)\.self_attn\.([qk])_layernorm\.`, "blk.$1.attn_${2}_norm."},
	{`\.(\d+)\.conv\.(in_proj|conv|out_proj)\.`, "blk.$1.shortconv.$2."},
	{`\.(\d+)\.(feed_forward|mixer)\.(gate|up|down)_proj\.`, "blk.$1.ffn_$3."},
	{`\.(\d+)\.(feed_forward|mixer)\.experts\.\d+\.(gate|up|down)_proj\.`, "blk.$1.ffn_${3}_exps."},
	{`\.(\d+)\.feed_forward\.experts\.\d+\.w1\.`, "blk.$1.ffn_gate_exps."},
	{`\.(\d+)\.feed_forward\.experts\.\d+\.w3\.`, "blk.$1.ffn_up_exps."},
	{`\.(\d+)\.feed_forward\.experts\.\d+\.w2\.`, "blk.$1.ffn_down_exps."},
	{`\.(\d+)\.(feed_forward\.router|feed_forward\.gate|mixer\.gate|block_sparse_moe\.router\.layer)\.weight$`,
		"blk.$1.ffn_gate_inp.weight"},
	{`\.(\d+)\.(feed_forward\.expert_bias|mixer\.gate\.e_score_correction_bias)$`, "blk.$1.exp_probs_b.bias"},
	{`\.(\d+)\.mixer\.shared_experts\.(up|down)_proj\.`, "blk.$1.ffn_${2}_shexp."},
	{`\.(\d+)\.block_sparse_moe\.input_linear\.`, "blk.$1.ffn_gate_up_exps."},
	{`\.(\d+)\.block_sparse_moe\.output_linear\.`, "blk.$1.ffn_down_exps."},
	{`\.(\d+)\.feed_forward\.w1\.`, "blk.$1.ffn_gate."},
	{`\.(\d+)\.feed_forward\.w3\.`, "blk.$1.ffn_up."},
	{`\.(\d+)\.feed_forward\.w2\.`, "blk.$1.ffn_down."},
	{`\.(\d+)\.shared_mlp\.input_linear\.`, "blk.$1.ffn_gate_up."},
	{`\.(\d+)\.shared_mlp\.output_linear\.`, "blk.$1.ffn_down."},
	{`\.(\d+)\.(mamba|mixer)\.(dt|b|c)_layernorm\.`, "blk.$1.ssm_${3}_norm."},
	{`\.(\d+)\.(mamba|mixer)\.(in|x|dt|out)_proj\.`, "blk.$1.ssm_$3."},
	{`\.(\d+)\.(mamba|mixer)\.dt_bias$`, "blk.$1.ssm_dt.bias"},
	{`\.(\d+)\.(mamba|mixer)\.A_log$`, "blk.$1.ssm_a"},
	{`\.(\d+)\.(mamba|mixer)\.D$`, "blk.$1.ssm_d"},
	{`\.(\d+)\.(mamba|mixer)\.(conv1d|norm)\.`, "blk.$1.ssm_$3."},
}

// llamaHybrid is a case of TestGGUFHybrids: a golden model, its architecture, and its specific values.
type llamaHybrid struct {
	golden, arch string
	values       map[string]any
	// change applies the conversion's further changes to the values of a tensor.
	change func(name string, x []float32, rows int)
}

// scaleRows multiplies rows lo to hi by a factor.
func scaleRows(x []float32, rows, lo, hi int, by float64) {
	width := len(x) / rows
	for i := lo * width; i < hi*width; i++ {
		x[i] = float32(float64(x[i]) * by)
	}
}

// interleave interleaves the elements of the two halves of each head, as in the conversion of Llama.
func interleave(x []float32, rows, heads int) {
	width, half := len(x)/rows, rows/heads/2
	old := slices.Clone(x)
	for h := range heads {
		for i := range half {
			for part := range 2 {
				copy(x[(h*2*half+2*i+part)*width:][:width], old[(h*2*half+part*half+i)*width:][:width])
			}
		}
	}
}

// interleaveHeads interleaves 4 query heads and 2 key heads.
func interleaveHeads(name string, x []float32, rows int) {
	switch {
	case strings.HasSuffix(name, "attn_q.weight"):
		interleave(x, rows, 4)
	case strings.HasSuffix(name, "attn_k.weight"):
		interleave(x, rows, 2)
	}
}

var llamaHybrids = []llamaHybrid{
	{"13_hf_jamba_dense_a", "jamba", map[string]any{
		"embedding_length": uint32(32), "block_count": uint32(4), "feed_forward_length": uint32(48),
		"attention.head_count": uint32(4), "attention.head_count_kv": []int32{0, 2, 0, 0},
		"attention.layer_norm_rms_epsilon": float32(1e-6), "ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(64),
		"ssm.state_size": uint32(16), "ssm.time_step_rank": uint32(2),
	}, nil},
	{"13_hf_lfm2_a", "lfm2", map[string]any{
		"embedding_length": uint32(32), "block_count": uint32(4), "feed_forward_length": uint32(64),
		"attention.head_count": uint32(4), "attention.head_count_kv": []int32{0, 0, 2, 0},
		"attention.layer_norm_rms_epsilon": float32(1e-5), "shortconv.l_cache": uint32(3),
		"rope.freq_base": float32(1e6), "vocab_size": uint32(101),
	}, nil},
	{"13_hf_granite_h_a", "granitehybrid", map[string]any{
		"embedding_length": uint32(48), "block_count": uint32(4), "feed_forward_length": uint32(64),
		"attention.head_count": uint32(4), "attention.head_count_kv": []int32{0, 0, 2, 0},
		"attention.layer_norm_rms_epsilon": float32(1e-5), "attention.scale": float32(0.1),
		"embedding_scale": float32(12), "residual_scale": float32(0.246), "logit_scale": float32(3),
		"rope.scaling.finetuned": false, "rope.dimension_count": uint32(12), "ssm.conv_kernel": uint32(4),
		"ssm.inner_size": uint32(96), "ssm.state_size": uint32(16), "ssm.time_step_rank": uint32(6),
		"ssm.group_count": uint32(1), "expert_count": uint32(0), "expert_used_count": uint32(0),
		"vocab_size": uint32(101),
	}, interleaveHeads},
	{"13_hf_bamba_a", "granitehybrid", map[string]any{
		"embedding_length": uint32(32), "block_count": uint32(4), "feed_forward_length": uint32(64),
		"attention.head_count": uint32(4), "attention.head_count_kv": []int32{0, 2, 0, 2},
		"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.scaling.finetuned": true,
		"rope.dimension_count": uint32(4), "rope.freq_base": float32(10000), "ssm.conv_kernel": uint32(4),
		"ssm.inner_size": uint32(64), "ssm.state_size": uint32(16), "ssm.time_step_rank": uint32(4),
		"ssm.group_count": uint32(1), "vocab_size": uint32(101),
	}, interleaveHeads},
	{"13_hf_nemotron_h_a", "nemotron_h", map[string]any{
		"embedding_length": uint32(32), "block_count": uint32(5), "feed_forward_length": []int32{0, 96, 0, 0, 96},
		"attention.head_count": uint32(6), "attention.head_count_kv": []int32{0, 0, 0, 2, 0},
		"attention.key_length": uint32(8), "attention.value_length": uint32(8),
		"attention.layer_norm_epsilon": float32(1e-5), "ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(64),
		"ssm.state_size": uint32(16), "ssm.time_step_rank": uint32(8), "ssm.group_count": uint32(2),
		"rope.scaling.finetuned": false, "rope.dimension_count": uint32(8), "vocab_size": uint32(101),
	}, nil},
	{"13_hf_falcon_h1_a", "falcon-h1", map[string]any{
		"embedding_length": uint32(32), "block_count": uint32(3), "feed_forward_length": uint32(64),
		"attention.head_count": uint32(2), "attention.head_count_kv": uint32(1), "attention.key_length": uint32(8),
		"attention.value_length": uint32(8), "attention.layer_norm_rms_epsilon": float32(1e-5),
		"rope.freq_base": float32(1e11), "ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(48),
		"ssm.state_size": uint32(16), "ssm.time_step_rank": uint32(6), "ssm.group_count": uint32(1),
		"vocab_size": uint32(101),
	}, func(name string, x []float32, rows int) {
		by := map[string]float64{"ffn_down": 0.5859375, "ffn_gate": 0.8838834764831844, "attn_k": 0.39062499999999994,
			"attn_output": 0.9375, "ssm_out": 0.23570226039551587, "ssm_in": 1.25}
		for part, factor := range by {
			if strings.HasSuffix(name, "."+part+".weight") {
				scaleRows(x, rows, 0, rows, factor)
			}
		}
		switch {
		case name == "token_embd.weight":
			scaleRows(x, rows, 0, rows, 5.656854249492381)
		case name == "output.weight":
			scaleRows(x, rows, 0, rows, 0.0390625)
		case strings.HasSuffix(name, "ssm_in.weight"):
			scaleRows(x, rows, 0, 48, 0.3535533905932738)
			scaleRows(x, rows, 48, 96, 0.25)
			scaleRows(x, rows, 96, 112, 0.3535533905932738)
			scaleRows(x, rows, 112, 128, 0.5)
			scaleRows(x, rows, 128, 134, 0.3535533905932738)
		}
	}},
	graniteExperts,
	{"13_hf_jamba_a", "jamba", map[string]any{
		"embedding_length": uint32(32), "block_count": uint32(5), "feed_forward_length": uint32(48),
		"attention.head_count": uint32(4), "attention.head_count_kv": []int32{0, 2, 0, 0, 2},
		"attention.layer_norm_rms_epsilon": float32(1e-6), "ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(64),
		"ssm.state_size": uint32(16), "ssm.time_step_rank": uint32(2), "expert_count": uint32(4),
		"expert_used_count": uint32(2),
	}, nil},
	{"13_hf_nemotron_h_moe_a", "nemotron_h_moe", map[string]any{
		"embedding_length": uint32(32), "block_count": uint32(5), "feed_forward_length": []int32{0, 24, 0, 0, 24},
		"attention.head_count": uint32(6), "attention.head_count_kv": []int32{0, 0, 0, 2, 0},
		"attention.key_length": uint32(8), "attention.value_length": uint32(8),
		"attention.layer_norm_epsilon": float32(1e-5), "ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(64),
		"ssm.state_size": uint32(16), "ssm.time_step_rank": uint32(8), "ssm.group_count": uint32(2),
		"expert_count": uint32(8), "expert_used_count": uint32(3), "expert_feed_forward_length": uint32(24),
		"expert_shared_feed_forward_length": uint32(40), "expert_shared_count": uint32(1),
		"expert_weights_norm": true, "expert_weights_scale": float32(2.5), "expert_group_count": uint32(1),
	}, nil},
	{"13_hf_lfm2_moe_a", "lfm2moe", map[string]any{
		"embedding_length": uint32(32), "block_count": uint32(4), "feed_forward_length": uint32(64),
		"attention.head_count": uint32(4), "attention.head_count_kv": []int32{0, 2, 0, 0},
		"attention.layer_norm_rms_epsilon": float32(1e-5), "shortconv.l_cache": uint32(3),
		"rope.freq_base": float32(5000), "vocab_size": uint32(101), "expert_count": uint32(6),
		"expert_used_count": uint32(2), "expert_feed_forward_length": uint32(24),
		"leading_dense_block_count": uint32(1), "expert_gating_func": uint32(2),
	}, nil},
}

// graniteExperts is Granite 4.0-H with experts.
var graniteExperts = llamaHybrid{"13_hf_granite_h_moe_a", "granitehybrid", map[string]any{
	"embedding_length": uint32(48), "block_count": uint32(3), "feed_forward_length": uint32(24),
	"attention.head_count": uint32(4), "attention.head_count_kv": []int32{0, 2, 0},
	"attention.layer_norm_rms_epsilon": float32(1e-5), "attention.scale": float32(0.1),
	"embedding_scale": float32(12), "residual_scale": float32(0.5), "logit_scale": float32(6),
	"rope.scaling.finetuned": false, "rope.dimension_count": uint32(12), "ssm.conv_kernel": uint32(4),
	"ssm.inner_size": uint32(96), "ssm.state_size": uint32(16), "ssm.time_step_rank": uint32(6),
	"ssm.group_count": uint32(1), "expert_count": uint32(6), "expert_used_count": uint32(2),
	"expert_shared_feed_forward_length": uint32(40), "vocab_size": uint32(101),
}, func(name string, x []float32, rows int) {
	switch {
	case strings.HasSuffix(name, "attn_q.weight"):
		interleave(x, rows, 4)
	case strings.HasSuffix(name, "attn_k.weight"):
		interleave(x, rows, 2)
	}
}}

// path writes the golden model as a GGUF file like llama.cpp's conversion and returns its path.
func (h llamaHybrid) path(t testing.TB, folder string) string {
	t.Helper()
	values, tensors := h.file(t, folder)
	return llamaPath(t, values, tensors)
}

// file returns the values and the tensors of the file.
func (h llamaHybrid) file(t testing.TB, folder string) (map[string]any, map[string]checkpoint.Tensor) {
	t.Helper()
	f, err := checkpoint.Open(filepath.Join(folder, model.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensors := map[string]checkpoint.Tensor{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		v, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		h.put(t, tensors, name, v, slices.Clone(x.Shape))
	}
	return h.allValues(), tensors
}

// allValues returns the values of the file.
func (h llamaHybrid) allValues() map[string]any {
	values := map[string]any{"general.architecture": h.arch, h.arch + ".context_length": uint32(256),
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": []string{}}
	for key, v := range h.values {
		values[h.arch+"."+key] = v
	}
	var tokens []string
	for i := range 101 {
		tokens = append(tokens, string(rune('!'+i%90))+strings.Repeat("~", i/90))
	}
	values["tokenizer.ggml.tokens"], values["tokenizer.ggml.eos_token_id"] = tokens, uint32(100)
	return values
}

// put adds a tensor as the conversion writes it.
func (h llamaHybrid) put(t testing.TB, tensors map[string]checkpoint.Tensor, name string, v []float32, shape []int) {
	own := ""
	for _, r := range llamaNames {
		if p := regexp.MustCompile(r.pattern); p.MatchString(name) {
			match := p.FindStringSubmatchIndex(name)
			own = string(p.ExpandString(nil, r.name, name, match)) + name[match[1]:]
			break
		}
	}
	if own == "" {
		t.Fatalf("%s has no name", name)
	}
	if h.arch == "falcon-h1" { // the only name without a suffix
		own = strings.Replace(own, "ffn_norm.weight", "ffn_norm", 1)
	}
	if layer, both := strings.CutSuffix(own, "ffn_gate_up.weight"); both {
		end := ".weight"
		if h.values["expert_shared_feed_forward_length"] != nil {
			end = "_shexp.weight"
		}
		half := []int{shape[0] / 2, shape[1]}
		tensors[layer+"ffn_gate"+end] = checkpoint.NewTensor(layer+"ffn_gate"+end, half, v[:len(v)/2])
		tensors[layer+"ffn_up"+end] = checkpoint.NewTensor(layer+"ffn_up"+end, half, v[len(v)/2:])
		return
	}
	if h.values["expert_shared_feed_forward_length"] != nil {
		own = strings.Replace(own, "ffn_down.", "ffn_down_shexp.", 1)
	}
	if layer, both := strings.CutSuffix(own, "ffn_gate_up_exps.weight"); both {
		var gate, up []float32
		for half := range slices.Chunk(v, shape[1]/2*shape[2]) {
			gate, up = up, append(gate, half...)
		}
		for name, x := range map[string][]float32{"ffn_gate_exps.weight": gate, "ffn_up_exps.weight": up} {
			tensors[layer+name] = checkpoint.NewTensor(layer+name, []int{shape[0], shape[1] / 2, shape[2]}, x)
		}
		return
	}
	switch {
	case strings.Contains(own, "_exps.") && len(shape) == 2: // one of the stacked tensors, in order
		all, count := v, 1
		if x, ok := tensors[own]; ok {
			before, err := x.Float32()
			if err != nil {
				t.Fatal(err)
			}
			all, count = append(before, v...), x.Shape[0]+1
		}
		if !strings.Contains(name, fmt.Sprintf(".experts.%d.", count-1)) {
			t.Fatalf("%s comes as number %d", name, count)
		}
		v, shape = all, []int{count, shape[0], shape[1]}
	case strings.Contains(own, "_exps."):
	case len(shape) == 3:
		shape = []int{shape[0], shape[2]}
	case strings.HasSuffix(own, "ssm_a"):
		for i := range v {
			v[i] = float32(-math.Exp(float64(v[i])))
		}
		fallthrough
	case strings.HasSuffix(own, "ssm_d"):
		if h.arch != "jamba" {
			shape = append(shape, 1)
		}
	case strings.HasSuffix(own, "ssm_norm.weight"):
		groups := 1
		if strings.HasPrefix(h.arch, "nemotron_h") {
			groups = 2
		}
		shape = []int{groups, shape[0] / groups}
	}
	if h.change != nil {
		h.change(own, v, shape[0])
	}
	tensors[own] = checkpoint.NewTensor(own, shape, v)
}
