package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestGGUFProblems checks that one error lists all missing, unexpected and misshapen tensors by their names in the
// file, that an invalid value is reported with its key, and an unsupported architecture with the supported ones.
func TestGGUFProblems(t *testing.T) {
	m := llamaModel(t, "mamba2")
	number := func(name string, shape ...int) checkpoint.Tensor {
		n := 1
		for _, s := range shape {
			n *= s
		}
		return checkpoint.NewTensor(name, shape, slices.Repeat([]float32{1}, n))
	}
	for what, c := range map[string]struct {
		change func(values map[string]any, tensors map[string]checkpoint.Tensor)
		want   []string
	}{
		"tensors": {func(_ map[string]any, tensors map[string]checkpoint.Tensor) {
			delete(tensors, "blk.1.ssm_out.weight")
			tensors["blk.0.ssm_in.weight"] = number("blk.0.ssm_in.weight", 7, 32)
			tensors["blk.0.ssm_x.weight"] = number("blk.0.ssm_x.weight", 3)
			tensors["blk.0.ssm_norm.weight"] = number("blk.0.ssm_norm.weight", 4, 16) // with another number of groups
		}, []string{"blk.1.ssm_out.weight: missing, want shape [32 64]", "blk.0.ssm_x.weight: unexpected",
			"blk.0.ssm_in.weight: found shape [7 32], want [184 32]", "blk.0.ssm_norm.weight: found shape [4 16]"}},
		"A": {func(_ map[string]any, tensors map[string]checkpoint.Tensor) {
			tensors["blk.1.ssm_a"] = number("blk.1.ssm_a", 8, 1)
		}, []string{"blk.1.ssm_a: found 1 at element 0 of 8, want numbers below 0"}},
		"architecture": {func(values map[string]any, _ map[string]checkpoint.Tensor) {
			values["general.architecture"] = "phi3"
		}, []string{`general.architecture: found "phi3", want one of falcon-h1, gpt2, granitehybrid, jamba, ` +
			`kimi-linear, lfm2, lfm2moe, llama, mamba, mamba2, nemotron_h, nemotron_h_moe, qwen2, qwen3`}},
		"keys": {func(values map[string]any, _ map[string]checkpoint.Tensor) {
			delete(values, "mamba2.ssm.state_size")
			values["mamba2.ssm.conv_kernel"] = "four"
			values["mamba2.attention.layer_norm_rms_epsilon"] = float32(-1)
		}, []string{"mamba2.ssm.state_size: found nothing", "mamba2.ssm.conv_kernel: found four",
			"mamba2.attention.layer_norm_rms_epsilon: found -1"}},
		"heads": {func(values map[string]any, _ map[string]checkpoint.Tensor) {
			values["mamba2.ssm.time_step_rank"] = uint32(7)
		}, []string{"mamba2.ssm.time_step_rank: found 7, want a number of heads that divides"}},
		"tokens": {func(values map[string]any, _ map[string]checkpoint.Tensor) {
			values["tokenizer.ggml.model"], values["tokenizer.ggml.tokens"] = "gpt2", []string{"a"}
		}, []string{"tokenizer.ggml.tokens: found 1, want one for each of the 272 rows"}},
		"layers": {func(values map[string]any, _ map[string]checkpoint.Tensor) {
			values["mamba2.block_count"] = uint32(10_000)
		}, []string{"n_layer: found 10000 layers"}},
	} {
		values, tensors := llamaFile(m, "mamba2", checkpoint.F32)
		c.change(values, tensors)
		path := llamaPath(t, values, tensors)
		_, _, err := LoadDir(path)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: error %v, want one with %q", what, err, want)
			}
		}
	}
}

// TestGGUFUnfit checks that a model that llama.cpp cannot run is not written, and that the error contains the reason.
func TestGGUFUnfit(t *testing.T) {
	for want, m := range map[string]*model.Model{
		"found s4d in layers 0, 1":        ggufModel(t, "s4d", nil),
		"norm: found":                     ggufModel(t, "mamba", func(c *model.Config) { c.Norm = model.NormLayer }),
		"found mamba/gelu in layers 0, 1": ggufModel(t, "mamba", func(c *model.Config) { c.MLP = model.MLPGelu }),
		"found mamba in layers 0 and mamba2 in layers 1, which none of its architectures has together": ggufModel(t, "",
			func(c *model.Config) { c.Layers = "mamba,mamba2" }),
		"max_position":               ggufModel(t, "mamba", func(c *model.Config) { c.MaxPositions = 64 }),
		"d_inner: found 96, want 64": ggufModel(t, "mamba(expand=3)", nil),
		"norm_before_gate":           ggufModel(t, "mamba2(norm_before_gate=true)", nil),
		"rmsnorm":                    ggufModel(t, "mamba2(rmsnorm=false)", nil),
		"grouped_norm":               ggufModel(t, "mamba2(ngroups=2,grouped_norm=false)", nil),
		"bias: found true":           ggufModel(t, "mamba(bias=true)", nil),
		"norm_eps":                   ggufModel(t, "mamba2(norm_eps=0.1)", nil),
		"bcdt_norm":                  ggufModel(t, "mamba(bcdt_norm=learned)", nil),
		"multiplier":                 ggufModel(t, "mamba", func(c *model.Config) { c.LogitScale = 2 }),
	} {
		var b bytes.Buffer
		err := WriteGGUF(&b, m, GGUFOptions{Type: checkpoint.F32})
		if err == nil || !strings.Contains(err.Error(), want) || b.Len() > 0 {
			t.Errorf("%s: error %v, %d bytes written", want, err, b.Len())
		}
	}
	m := ggufModel(t, "mamba", func(c *model.Config) { c.VocabSize = 8 })
	for want, o := range map[string]GGUFOptions{
		"want one of [BF16 F16 F32 Q4_0 Q4_K_M Q6_K Q8_0]": {Type: checkpoint.Q4_1},
		"found 256 tokens":  {Type: checkpoint.F32, Tokenizer: tokenizer.Bytes()},
		"the dna tokenizer": {Type: checkpoint.F32, Tokenizer: tokenizer.DNA()},
	} {
		if err := WriteGGUF(&bytes.Buffer{}, m, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestGGUFTexts checks that the tokenizer, the chat template and the tokens that end a reply come from the file, and
// that padding rows are not tokens.
func TestGGUFTexts(t *testing.T) {
	m := ggufModel(t, "mamba", nil)
	path := writtenGGUF(t, m,
		GGUFOptions{Type: checkpoint.F32, Tokenizer: tokenizer.Bytes(), Template: "{{ bos_token }}"})
	texts, err := ReadGGUFTexts(path)
	if err != nil {
		t.Fatal(err)
	}
	tok := texts.Tokenizer
	ids, err := tok.Encode(nil, []byte("a é\n"))
	if err != nil || !slices.Equal(ids, []int32{'a', ' ', 0xc3, 0xa9, '\n'}) || tok.VocabSize() != 256 {
		t.Errorf("ids %v, %v of %d tokens", ids, err, tok.VocabSize())
	}
	if texts.Template != "{{ bos_token }}" || texts.BOS != "" || texts.EOS != "" || texts.EndIDs != nil {
		t.Errorf("found %+v", texts)
	}
	values, tensors := llamaFile(llamaModel(t, "mamba"), "mamba", checkpoint.F32)
	_, err = Tokenizer(llamaPath(t, values, tensors))
	if err == nil || !strings.Contains(err.Error(), "no tokenizer.ggml") {
		t.Errorf("without tokens: error %v", err)
	}
	var tokens []string
	for i := range 272 {
		tokens = append(tokens, fmt.Sprintf("<t%d>", i))
	}
	values["tokenizer.ggml.model"], values["tokenizer.ggml.pre"] = "gpt2", "gpt-2"
	values["tokenizer.ggml.tokens"], values["tokenizer.ggml.merges"] = tokens, []string{}
	values["tokenizer.ggml.eos_token_id"], values["tokenizer.ggml.eot_token_id"] = uint32(3), int32(5)
	values["tokenizer.ggml.bos_token_id"], values["tokenizer.ggml.eom_token_id"] = uint32(1), uint32(math.MaxUint32)
	texts, err = ReadGGUFTexts(llamaPath(t, values, tensors))
	if err != nil || texts.BOS != "<t1>" || texts.EOS != "<t3>" || !slices.Equal(texts.EndIDs, []int32{3, 5}) {
		t.Errorf("found %q, %q, %v, %v", texts.BOS, texts.EOS, texts.EndIDs, err)
	}
	if string(texts.Generation) != "{\n  \"eos_token_id\": [\n    3,\n    5\n  ]\n}" {
		t.Errorf("generation: %s", texts.Generation)
	}
	values["general.sampling.temp"], values["general.sampling.top_k"] = float32(0.6), int32(-1)
	values["tokenizer.ggml.padding_token_id"], values["tokenizer.ggml.fim_pre_token_id"] = uint32(2), uint32(9)
	values["tokenizer.chat_template"], values["tokenizer.chat_templates"] = "plain", []string{"tool_use"}
	values["tokenizer.chat_template.tool_use"], values["tokenizer.ggml.add_bos_token"] = "tools", true
	texts, err = ReadGGUFTexts(llamaPath(t, values, tensors))
	if err != nil {
		t.Fatal(err)
	}
	var config, generation map[string]any
	if err := errors.Join(json.Unmarshal(texts.TokenizerConfig, &config),
		json.Unmarshal(texts.Generation, &generation)); err != nil {
		t.Fatal(err)
	}
	if want := map[string]any{"do_sample": true, "temperature": 0.6, "top_k": 0.0,
		"eos_token_id": []any{3.0, 5.0}}; !reflect.DeepEqual(generation, want) {
		t.Errorf("generation: %v, want %v", generation, want)
	}
	if want := map[string]any{"bos_token": "<t1>", "eos_token": "<t3>", "pad_token": "<t2>", "add_bos_token": true,
		"additional_special_tokens": []any{"<t5>", "<t9>"}, "chat_template": []any{
			map[string]any{"name": "tool_use", "template": "tools"},
			map[string]any{"name": "default", "template": "plain"}}}; !reflect.DeepEqual(config, want) {
		t.Errorf("configuration: %v, want %v", config, want)
	}
	for key, v := range map[string]any{"general.sampling.top_k": float32(2), "general.sampling.top_p": "much",
		"tokenizer.chat_template": true, "general.sampling.temp": float32(math.NaN())} {
		bad := maps.Clone(values)
		bad[key] = v
		name := strings.Replace(key, "temp", "*", 1)
		if key == "tokenizer.chat_template" {
			name = key
		}
		if _, err := ReadGGUFTexts(llamaPath(t, bad, tensors)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s %v: error %v", key, v, err)
		}
	}
	values["tokenizer.ggml.token_type"] = []string{"a"}
	_, err = ReadGGUFTexts(llamaPath(t, values, tensors))
	if err == nil || !strings.Contains(err.Error(), "token_type") {
		t.Errorf("types that are texts: error %v", err)
	}
}

// TestGGUFHostileSizes checks that sizes that differ from the tensors are errors and take no memory.
func TestGGUFHostileSizes(t *testing.T) {
	for _, arch := range []string{"mamba", "mamba2"} {
		for _, key := range []string{"embedding_length", "block_count", "ssm.conv_kernel", "ssm.inner_size",
			"ssm.state_size", "ssm.time_step_rank", "ssm.group_count"} {
			if key == "ssm.group_count" && arch == "mamba" {
				continue
			}
			for _, size := range []uint32{0, 5, 1_000_000, 1 << 30, math.MaxUint32} {
				values, tensors := llamaFile(llamaModel(t, arch), arch, checkpoint.F32)
				values[arch+"."+key] = size
				path := llamaPath(t, values, tensors)
				var errs [2]error
				used := allocated(func() {
					_, _, errs[0] = LoadDir(path)
					_, _, errs[1] = Describe(path)
				})
				if err := errors.Join(errs[:]...); errs[0] == nil || errs[1] == nil || used > mostBytes {
					t.Errorf("%s.%s %d: %d bytes, %v", arch, key, size, used, err)
				}
			}
		}
	}
}

// FuzzGGUFModel checks that any GGUF file is a model or an error, and takes memory in proportion to its size.
func FuzzGGUFModel(f *testing.F) {
	for _, arch := range []string{"mamba", "mamba2"} {
		values, tensors := llamaFile(llamaModel(f, arch), arch, checkpoint.Q8_0)
		data, err := os.ReadFile(llamaPath(f, values, tensors))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	m := ggufModel(f, "mamba2(d_state=4)", nil)
	data, err := os.ReadFile(writtenGGUF(f, m, GGUFOptions{Type: checkpoint.Q8_0, Tokenizer: tokenizer.Bytes()}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, h := range llamaHybrids {
		data, err := os.ReadFile(h.path(f, filepath.Join("..", "testdata", "golden", h.golden)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, name := range []string{"qwen3_5", "qwen3_5_moe", "qwen3_next"} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", "golden", "13_gguf_"+name+"_a", "model.gguf"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	folder := filepath.Join("..", "testdata", "golden", "13_hf_falcon_h1_a") // has multipliers
	texts, err := ChatTexts(folder)
	if err != nil {
		f.Fatal(err)
	}
	data, err = os.ReadFile(writtenGGUF(f, must(LoadDir(folder)),
		GGUFOptions{Type: checkpoint.Q4_0, Published: texts[PublishedFile]}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	path := filepath.Join(f.TempDir(), "fuzz.gguf")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		used := allocated(func() {
			m, _, err := LoadDir(path)
			if err == nil {
				m.NewState()
			}
			if _, _, described := Describe(path); err == nil && described != nil {
				t.Errorf("it loads, but: %v", described)
			}
			if texts, err := ReadGGUFTexts(path); err == nil && texts.Tokenizer != nil {
				texts.Tokenizer.Decode(nil, []int32{0})
			}
		})
		if most := mostBytes + 64*len(data); used > most {
			t.Errorf("%d bytes were allocated for a file of %d, want at most %d", used, len(data), most)
		}
	})
}
