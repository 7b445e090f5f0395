package release

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// hfCopy returns a copy of the folder of a golden case, with changes to some of its files.
func hfCopy(t *testing.T, name string, change func(file string, data []byte) []byte) string {
	t.Helper()
	from, to := filepath.Join(golden.Dir(t), name), t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			data = change(e.Name(), data)
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// replaced returns a change that replaces a text in one file.
func replaced(file, old, text string) func(string, []byte) []byte {
	return func(name string, data []byte) []byte {
		if name == file {
			data = bytes.ReplaceAll(data, []byte(old), []byte(text))
		}
		return data
	}
}

// wantError fails unless LoadDir returns an error with all words.
func wantError(t *testing.T, dir string, words ...string) {
	t.Helper()
	_, _, err := LoadDir(dir)
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want an error with %q", err, word)
		}
	}
}

// TestEveryFamilyHasAPage checks that every family in hfFamilies has a row in docs/models.md that names a golden model.
func TestEveryFamilyHasAPage(t *testing.T) {
	page, err := os.ReadFile("../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Families() {
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\|.*`(13_hf_[a-z0-9_]+)`.* \\|$").FindSubmatch(page)
		if row == nil {
			t.Errorf("%s: found no row with a golden in the table of docs/models.md", name)
			continue
		}
		if _, err := os.Stat(filepath.Join("..", "testdata", "golden", string(row[1])+"_a.safetensors")); err != nil {
			t.Error(err)
		}
	}
}

// TestHFProblems checks that missing, unexpected, misshapen and non-finite tensors are all listed, under their names in
// the file.
func TestHFProblems(t *testing.T) {
	dir := hfCopy(t, "13_hf_granite_h_a", nil)
	path := filepath.Join(dir, model.WeightsFile)
	f, err := checkpoint.OpenSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []checkpoint.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		values, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		shape := x.Shape
		switch name {
		case "model.layers.2.self_attn.k_proj.weight":
			continue
		case "model.layers.0.shared_mlp.input_linear.weight":
			shape = []int{64, 96}
		case "model.norm.weight":
			values[3] = float32(math.NaN())
		}
		tensors = append(tensors, checkpoint.NewTensor(name, shape, values))
	}
	tensors = append(tensors, checkpoint.NewTensor("model.extra", []int{1}, []float32{1}))
	var out bytes.Buffer
	if err := checkpoint.WriteSafetensors(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	wantError(t, dir, "model.layers.2.self_attn.k_proj.weight: missing, want shape [24 48]",
		"model.layers.0.shared_mlp.input_linear.weight: found shape [64 96], want [128 48]",
		"model.norm.weight: found NaN", "model.extra: unexpected")
}

// TestShardsStayInTheirFolder checks that an index cannot refer to files outside of the folder, and must agree with the
// files.
func TestShardsStayInTheirFolder(t *testing.T) {
	const sharded, index = "13_hf_granite_h_bf16_sharded_a", "model.safetensors.index.json"
	const first, second = "model-00001-of-00005.safetensors", "model-00002-of-00005.safetensors"
	for old, c := range map[string][2]string{
		`"` + first:  {`"../` + first, "want the name of a file of the folder"},
		`"` + second: {`"/etc/` + second, "want the name of a file of the folder"},
		`"model.layers.0.mamba.D": "` + first: {`"model.layers.0.mamba.D": "` + second,
			"model.layers.0.mamba.D: found in " + first + ", where the index does not have it"},
		`"model.layers.0.mamba.D"`: {`"model.layers.9.mamba.D"`,
			"model.layers.9.mamba.D: missing in " + first + ", where the index has it"},
		"weight_map": {"weights", "weight_map: found 0 files"},
	} {
		wantError(t, hfCopy(t, sharded, replaced(index, old, c[0])), c[1])
	}
	dir := hfCopy(t, sharded, nil)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Rename(filepath.Join(dir, first), outside); err != nil {
		t.Fatal(err)
	}
	wantError(t, dir, first)
	if os.Symlink(outside, filepath.Join(dir, first)) == nil { // not every system permits links
		wantError(t, dir, "which is a link to")
	}
}

// TestHubCache checks loading from a hub's cache, in which the files of a snapshot are links to the contents.
func TestHubCache(t *testing.T) {
	root := t.TempDir()
	snapshot, blobs := filepath.Join(root, "snapshots", "abc"), filepath.Join(root, "blobs")
	for _, dir := range []string{snapshot, blobs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	from := hfCopy(t, "13_hf_granite_h_bf16_sharded_a", nil)
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(blobs, e.Name())); err != nil {
			t.Fatal(err)
		}
		link := os.Symlink(filepath.Join("..", "..", "blobs", e.Name()), filepath.Join(snapshot, e.Name()))
		if link != nil { // without symbolic links, such a cache has plain files
			if err := os.Link(filepath.Join(blobs, e.Name()), filepath.Join(snapshot, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := LoadDir(snapshot); err != nil {
		t.Error(err)
	}
}

// TestHFSavesAndLoads checks that a loaded model is saved in hippo's own layout and is unchanged after loading again.
func TestHFSavesAndLoads(t *testing.T) {
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		m, _ := openHF(t, hfFolder(c))
		dir := t.TempDir()
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		again, _, err := LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		ids := ids32(c.I64("in/ids_long"))
		if got, want := logitsOf(again, ids, 1), logitsOf(m, ids, 1); string(bits(got)) != string(bits(want)) {
			t.Error("it computes something else than before")
		}
	})
}

// bits returns the bits of numbers.
func bits(x []float32) []byte { x0 := checkpoint.NewTensor("", []int{len(x)}, x); return x0.Data }

// TestHFConfigErrors checks that the error for an unsupported setting names its field.
func TestHFConfigErrors(t *testing.T) {
	for _, c := range []struct{ folder, old, text, want string }{
		{"granite_h", `"num_local_experts": 0`, `"num_local_experts": 4`, "num_experts_per_tok: found 4 and 0"},
		{"granite_h_moe", `"num_local_experts": 6`, `"num_local_experts": 6000`, "num_experts_per_tok: found 6000"},
		{"granite_h_moe", `"intermediate_size": 24`, `"intermediate_size": -24`, "found -24"},
		{"granite_h", `"rope_scaling": null`, `"rope_scaling": null, "layer_types": ["mamba"]`, "layer_types: found 1"},
		{"granite_h", `"hidden_act": "silu"`, `"hidden_act": "gelu"`, `hidden_act: found "gelu"`},
		{"falcon_h1", `"rope_scaling": null`, `"rope_scaling": {"type": "yarn"}`, "rope_scaling.factor: found 0"},
		{"falcon_h1", `"rope_scaling": null`, `"rope_scaling": {"rope_type": "dynamic", "factor": 2}`,
			`rope_scaling.rope_type: found "dynamic", want default, linear, llama3 or yarn`},
		{"falcon_h1", `"rope_scaling": null`, `"rope_parameters": {"rope_type": "llama3", "factor": 2}`,
			"rope_parameters.original_max_position_embeddings: found 0"},
		{"falcon_h1", `"rope_scaling": null`, `"rope_scaling": {"type": "linear", "factor": 0.5}`,
			"rotary_factor: found 0.5"},
		{"zamba2_2blocks", `"use_long_context": false`,
			`"use_long_context": false, "rope_scaling": {"type": "linear", "factor": 2}`, `found the type "linear"`},
		{"falcon_h1", `"num_key_value_heads": 1`, `"num_key_value_heads": 3`, "num_key_value_heads: found 2 and 3"},
		{"falcon_h1", `"mamba_d_ssm": 48`, `"mamba_d_ssm": 40`, "want a product of 40 channels"},
		{"bamba", `"attn_layer_indices": [`, `"attn_layer_indices": [9,`, "attn_layer_indices: found 9"},
		{"jamba", `"num_experts_per_tok": 2`, `"num_experts_per_tok": 5`, "num_experts_per_tok: found 4 and 5"},
		{"jamba", `"expert_layer_period": 2`, `"expert_layer_period": 0`, "expert_layer_period"},
		{"nemotron_h", `M-M*-`, `M-M?-`, "hybrid_override_pattern: found '?'"},
		{"nemotron_h", `M-M*-`, `M-ME-`, "n_routed_experts, num_experts_per_tok: found 0"},
		{"nemotron_h_moe", `"n_group": 1`, `"n_group": 3`, "groups of equal size"},
		{"nemotron_h_moe", `"mlp_bias": false`, `"mlp_bias": true`, "mlp_bias: found true"},
		{"lfm2_moe", `"num_experts": 6`, `"num_experts": 0`, "num_experts, num_experts_per_tok: found 0"},
		{"recurrent_gemma", `"gelu_pytorch_tanh"`, `"relu"`, `hidden_activation: found "relu"`},
		{"recurrent_gemma", `"recurrent",`, `"loop",`, `block_types: found "loop"`},
		{"recurrent_gemma", `0.5`, `0.2`, "partial_rotary_factor: found 0.2"},
		{"recurrent_gemma", `"lru_width": 32`, `"lru_width": 33`, "num_heads: found 2, want a divisor of the width 33"},
		{"zamba2", `"use_long_context": false`, `"use_long_context": true`, "use_long_context: found true"},
		{"zamba2", `"num_mem_blocks": 1`, `"num_mem_blocks": 0`, "num_mem_blocks: found 0"},
		{"zamba2", `"num_attention_heads": 4`, `"num_attention_heads": 3`, "num_attention_heads: found 3"},
		{"zamba2", `"hybrid"`, `"other"`, `layers_block_type: found "other"`},
		{"mistral", `"sliding_window": 11`, `"sliding_window": 0`, "window: found 0"},
		{"qwen2", `"sliding_window": null`, `"sliding_window": null, "layer_types": ["full_attention"]`,
			"layer_types: found 1"},
		{"qwen2", `"sliding_window": null`, `"sliding_window": null, "layer_types": ["mamba", "full_attention"]`,
			`layer_types: found "mamba"`},
		{"llama", `"num_hidden_layers": 2`, `"num_hidden_layers": 0`, "num_hidden_layers: found 0"},
		{"gpt2", `"n_layer": 2`, `"n_layer": 100000`, "n_layer: found 100000"},
		{"gpt2", `"n_positions": 256`, `"n_positions": 0`, "n_positions: found 0"},
		{"gpt2", `"scale_attn_weights": true`, `"scale_attn_weights": false`, "scale_attn_weights: found false"},
		{"gpt2", `"scale_attn_by_inverse_layer_idx": false`, `"scale_attn_by_inverse_layer_idx": true`,
			"scale_attn_by_inverse_layer_idx: found true"},
		{"qwen3_5", `"linear_num_value_heads": 4`, `"linear_num_value_heads": 3`,
			"linear_num_value_heads: found 2 and 3"},
		{"qwen3_5", `"linear_key_head_dim": 8`, `"linear_key_head_dim": 0`, "linear_key_head_dim: found 0"},
		{"qwen3_5", `"num_hidden_layers": 4`, `"num_hidden_layers": 5`, "layer_types: found 4"},
		{"qwen3_5", `"text_config": {`, `"text_config": 3, "other": {`, "text_config"},
		{"qwen3_5_moe", `"num_experts": 6`, `"num_experts": 1`, "num_experts_per_tok: found 1 and 2"},
		{"qwen3_5_moe", `"num_experts": 6`, `"num_experts": 900000000000`, "num_experts_per_tok: found 900000000000"},
		{"qwen3_next", `"num_experts": 6`, `"num_experts": 900000000000`, "num_experts_per_tok: found 900000000000"},
		{"qwen3_next", `"full_attention_interval": 4`, `"full_attention_interval": 0`,
			"full_attention_interval: found 0"},
		{"qwen3_next", `"decoder_sparse_step": 1`, `"decoder_sparse_step": 0`, "decoder_sparse_step: found 0"},
		{"qwen3_next", `"linear_key_head_dim": 8`, `"linear_key_head_dim": 16387`, "equal pieces"},
		{"olmo_hybrid", `"linear_attention",`, `"other",`, `layer_types: found "other"`},
		{"olmo_hybrid", `"linear_conv_kernel_dim": 4`, `"linear_conv_kernel_dim": 0`,
			"linear_conv_kernel_dim: found 0"},
		{"xlstm", `"num_blocks": 3`, `"num_blocks": 0`, "num_hidden_layers, num_blocks: found 0"},
		{"xlstm", `"num_blocks": 3`, `"num_blocks": 3, "num_hidden_layers": 4`,
			"num_hidden_layers, num_blocks: found 4 and 3"},
		{"xlstm", `"embedding_dim": 64`, `"embedding_dim": -64`, "hidden_size, embedding_dim: found -64"},
		{"xlstm", `"embedding_dim": 64`, `"embedding_dim": 65538`, "hidden_size, embedding_dim: found 65538"},
		{"xlstm", `"num_heads": 2`, `"num_heads": 3`, "want multiples of num_heads 3"},
		{"xlstm", `"num_heads": 2`, `"num_heads": 0`, "num_heads: found 0"},
		{"xlstm", `"v_dim_factor": 1.0`, `"v_dim_factor": 1e300`, "v_dim_factor: found 1e+300"},
		{"xlstm", `"qk_dim_factor": 1.0`, `"qk_dim_factor": 0`, "qk_dim_factor: found 0"},
		{"xlstm", `"ffn_proj_factor": 0.9`, `"ffn_proj_factor": -1`, "ffn_proj_factor: found -1"},
		{"xlstm", `"ffn_round_up_to_multiple_of": 64`, `"ffn_round_up_to_multiple_of": 0`,
			"ffn_round_up_to_multiple_of: found 0"},
		{"xlstm", `"output_logit_soft_cap": 30.0`, `"output_logit_soft_cap": 0`, "output_logit_soft_cap: found 0"},
		{"xlstm", `"gate_soft_cap": 15.0`, `"gate_soft_cap": -1`, "gate_soft_cap: found -1"},
		{"xlstm", `"norm_eps": 1e-06`, `"norm_eps": 0`, "norm_eps: found 0"},
		{"xlstm", `"eps": 1e-06`, `"eps": -1`, "eps: found -1"},
		{"xlstm", `"use_bias": false`, `"use_bias": true`, "use_bias: found true"},
		{"xlstm", `"add_out_norm": true`, `"add_out_norm": false`, "add_out_norm: found false"},
		{"xlstm", `"weight_mode": "single"`, `"weight_mode": "other"`, `weight_mode: found "other"`},
		{"kimi_linear", `"q_lora_rank": null`, `"q_lora_rank": 8`, "q_lora_rank: found 8"},
		{"kimi_linear", `"mla_use_nope": true`, `"mla_use_nope": false`, "mla_use_nope: found false"},
		{"kimi_linear", `"q_lora_rank"`, `"mla_use_output_gate": true, "q_lora_rank"`,
			"mla_use_output_gate: found true"},
		{"kimi_linear", `"num_nextn_predict_layers": 0`, `"num_nextn_predict_layers": 1`,
			"num_nextn_predict_layers: found 1"},
		{"kimi_linear", `"linear_attn_config": {`, `"other": {`, "linear_attn_config: missing"},
		{"kimi_linear", `"short_conv_kernel_size": 4`, `"short_conv_kernel_size": 0`,
			"linear_attn_config.short_conv_kernel_size: found 0"},
		{"kimi_linear", `"short_conv_kernel_size": 4`, `"short_conv_kernel_size": 4, "gate_lower_bound": -5`,
			"linear_attn_config.gate_lower_bound: found -5"},
		{"kimi_linear", `"kv_lora_rank": 12`, `"kv_lora_rank": 0`, "kv_lora_rank: found 0"},
		{"kimi_linear", `"v_head_dim": 10`, `"v_head_dim": 100000`, "v_head_dim: found 100000"},
		{"kimi_linear", `"num_hidden_layers": 4`, `"num_hidden_layers": 5`, "found layer 5 neither"},
		{"kimi_linear", `"num_hidden_layers": 4`, `"num_hidden_layers": 3`, "found layer 4 in kda_layers and"},
		{"kimi_linear", `"num_experts": 6`, `"num_experts": 1`, "num_experts_per_token: found 1 and 2"},
		{"kimi_linear", `"moe_layer_freq": 1`, `"moe_layer_freq": 0`, "moe_layer_freq: found 0"},
		{"kimi_linear", `"moe_intermediate_size": 20`, `"moe_intermediate_size": 0`, "moe_intermediate_size: found 0"},
		{"kimi_linear", `"num_shared_experts": 1`, `"num_shared_experts": -1`, "num_shared_experts: found -1"},
		{"kimi_linear", `"num_expert_group": 1`, `"num_expert_group": 4`, "num_expert_group, topk_group: found 4"},
		{"kimi_linear", `"moe_router_activation_func": "sigmoid"`, `"moe_router_activation_func": "softmax"`,
			"moe_router_activation_func: found"},
		{"kimi_linear", `"hidden_act": "silu"`, `"hidden_act": "situ"`, "hidden_act: found"},
		{"kimi_linear", `"q_lora_rank"`, `"attn_res_block_size": 12, "q_lora_rank"`, "attn_res_block_size: found 12"},
		{"kimi_linear", `"q_lora_rank"`, `"routed_expert_hidden_size": 9, "q_lora_rank"`,
			"routed_expert_hidden_size: found 9"},
		{"lfm2_5", `"block_auto_adjust_ff_dim": false`, `"block_multiple_of": 0`, "block_multiple_of"},
		{"mamba2_limit", `0.05`, `0.5`, "time_step_limit"},
		{"mamba2", `"num_heads": `, `"num_heads": 1`, "num_heads, head_dim"},
	} {
		data, err := os.ReadFile(filepath.Join(golden.Dir(t), "13_hf_"+c.folder+"_a", model.ConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Replace(data, []byte(c.old), []byte(c.text), 1)
		if bytes.Equal(changed, data) {
			t.Errorf("%s: %s is not in its configuration", c.folder, c.old)
		}
		cfg, err := ParseConfig(changed)
		if err == nil {
			err = cfg.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: got %v, want an error with %q", c.folder, c.text, err, c.want)
		}
	}
}

// TestPythonJSON checks that Python's extensions of JSON are read, and that texts are unchanged.
func TestPythonJSON(t *testing.T) {
	text := `{"a": [0.0, Infinity], "b": -Infinity, "c": "Infinity \" NaN", "d": NaN}`
	var got struct {
		A    []number
		B, D number
		C    string
	}
	if err := json.Unmarshal(pythonJSON([]byte(text)), &got); err != nil {
		t.Fatal(err)
	}
	if !math.IsInf(float64(got.A[1]), 1) || !math.IsInf(float64(got.B), -1) || !math.IsNaN(float64(got.D)) ||
		got.C != `Infinity " NaN` {
		t.Errorf("got %+v", got)
	}
}

// TestHFBalance checks that the weight of the loss that balances experts is that of the configuration or the default of
// its class.
func TestHFBalance(t *testing.T) {
	for _, c := range []struct{ folder, old, text, want string }{
		{"granite_h_moe", "", "", "balance=0.01"},
		{"granite_h_moe", `"router_aux_loss_coef": 0.01,`, "", "balance=0.001"},
		{"granite_h_moe", `"router_aux_loss_coef": 0.01`, `"router_aux_loss_coef": -1`, "balance=-1"},
		{"jamba", `"router_aux_loss_coef": 0.001`, `"router_aux_loss_coef": 0.5`, "balance=0.5"},
	} {
		data, err := os.ReadFile(filepath.Join(golden.Dir(t), "13_hf_"+c.folder+"_a", model.ConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := ParseConfig(bytes.Replace(data, []byte(c.old), []byte(c.text), 1))
		if err != nil || !strings.Contains(cfg.Layers+cfg.MLP, c.want) {
			t.Errorf("%s, %s: %s, %s, %v, want %s", c.folder, c.text, cfg.Layers, cfg.MLP, err, c.want)
		}
		if err := cfg.Validate(); (err != nil) != strings.Contains(c.want, "-") {
			t.Errorf("%s, %s: %v", c.folder, c.text, err)
		}
	}
}
