package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// rwkv7Files returns the folder of a golden model of RWKV-7 and its .pth file.
func rwkv7Files(t testing.TB) (folder, pth string) {
	return filepath.Join(golden.Dir(t), "13_hf_rwkv7_a"),
		filepath.Join(golden.Dir(t), "15_rwkv7_lm_a", "rwkv7-tiny.pth")
}

// TestRWKV7Pth checks that the authors' .pth file, without a configuration, gives the model of the other layout bit for
// bit. If it is written in that layout, the result is that folder, in bfloat16.
func TestRWKV7Pth(t *testing.T) {
	folder, pth := rwkv7Files(t)
	want, _ := openHF(t, folder)
	f, err := checkpoint.Open(pth)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for config, o := range map[string]ShapeOptions{"": {}, "given": {Config: filepath.Join(folder, model.ConfigFile)}} {
		m, _, err := FromCheckpoint(f, o)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(m.Config, want.Config) {
			t.Errorf("configuration %s: found %+v, want %+v", config, m.Config, want.Config)
		}
		if !reflect.DeepEqual(m.Tensors(), want.Tensors()) {
			t.Errorf("configuration %s: other tensors", config)
		}
		out := hfWritten(t, m, nil, f)
		if names := differing(t, folder, out); len(names) > 0 {
			t.Errorf("written from the .pth: other tensors %q", names)
		}
		if again, _ := openHF(t, out); !reflect.DeepEqual(again.Config, want.Config) {
			t.Errorf("written from the .pth: found %+v, want %+v", again.Config, want.Config)
		}
	}
	if _, err := Weights(f); err == nil || !strings.Contains(err.Error(), "want FromCheckpoint") {
		t.Errorf("Weights: got %v", err)
	}
}

// TestRWKV7Derived checks that a model that was trained from scratch is written in the layout of the transformers
// library if its norms have the epsilons of that class, with or without a norm after the embedding.
func TestRWKV7Derived(t *testing.T) {
	for _, norm := range []bool{false, true} {
		m := ggufModel(t, "rwkv7(head_size=8,norm_eps=8e-05)", func(c *model.Config) {
			c.MLP, c.Norm, c.EmbedNorm = "channel-mix", model.NormLayer, norm
		})
		got, _ := openHF(t, hfWritten(t, m, nil, nil))
		if got.Config.EmbedNorm != norm || !slices.Equal(ggufLogits(got), ggufLogits(m)) {
			t.Errorf("norm after the embedding %v: read with other logits", norm)
		}
	}
	m := ggufModel(t, "rwkv7(head_size=8)", func(c *model.Config) { c.MLP, c.Norm = "channel-mix", model.NormLayer })
	err := WriteHF(t.TempDir(), m, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "norm_eps: found 0.00064") {
		t.Errorf("another epsilon of heads: got %v", err)
	}
}

// rewritten returns a copy of a folder with other tensors.
func rewritten(t *testing.T, folder string, change func(x *checkpoint.Tensor) []checkpoint.Tensor) string {
	t.Helper()
	dir := hfCopy(t, filepath.Base(folder), nil)
	f, err := OpenWeights(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []checkpoint.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		y := *x
		tensors = append(tensors, change(&y)...)
	}
	var out bytes.Buffer
	if err := checkpoint.WriteSafetensors(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, model.WeightsFile)
	if err := os.WriteFile(path+".new", out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRWKV7Fused checks the first files of the layout, in which the six mixtures of a layer are rows of one tensor.
func TestRWKV7Fused(t *testing.T) {
	folder, _ := rwkv7Files(t)
	want, _ := openHF(t, folder)
	fused := func(rows int) string {
		var data []byte
		return rewritten(t, folder, func(x *checkpoint.Tensor) []checkpoint.Tensor {
			at := strings.Index(x.Name, ".attn.x_")
			if at < 0 {
				return []checkpoint.Tensor{*x}
			}
			if data = append(data, x.Data...); !strings.HasSuffix(x.Name, "x_g") { // the last of r, w, k, v, a, g
				return nil
			}
			d := x.Shape[2]
			all := checkpoint.Tensor{Name: x.Name[:at] + ".attn.x_x", DType: x.DType, Shape: []int{rows, 6 * d / rows},
				Data: data}
			data = nil
			return []checkpoint.Tensor{all}
		})
	}
	if got, _ := openHF(t, fused(6)); !reflect.DeepEqual(got.Tensors(), want.Tensors()) {
		t.Error("other tensors")
	}
	wantError(t, fused(3), "model.layers.0.attn.x_x: found shape [3 256], want 6 rows")
}

// TestRWKV7Problems checks that errors use the names in the file.
func TestRWKV7Problems(t *testing.T) {
	folder, pth := rwkv7Files(t)
	wantError(t, rewritten(t, folder, func(x *checkpoint.Tensor) []checkpoint.Tensor {
		switch x.Name {
		case "model.layers.0.pre_norm.bias":
			return nil
		case "model.layers.1.attn.x_k":
			x.Shape = []int{1, 2, 64}
		case "model.layers.1.attn.w_lora.lora.0.weight":
			x.Shape = []int{4, 256}
		case "model.layers.0.ffn.x_k":
			y := checkpoint.NewTensor(x.Name, x.Shape, slices.Repeat([]float32{float32(math.NaN())}, 128))
			return []checkpoint.Tensor{y, checkpoint.NewTensor("model.layers.0.attn.v_lora.lora.2.bias", []int{1},
				[]float32{1})}
		}
		return []checkpoint.Tensor{*x}
	}), "model.layers.0.pre_norm.bias: missing, want shape [128]",
		"model.layers.1.attn.x_k: found shape [1 2 64], want [128]",
		"model.layers.1.attn.w_lora.lora.0.weight: found shape [4 256], want [8 128]",
		"model.layers.0.ffn.x_k: found NaN", "model.layers.0.attn.v_lora.lora.2.bias: unexpected")

	f, err := checkpoint.Open(pth)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := func(change func(name string, x *checkpoint.Tensor)) error {
		var others []*checkpoint.Tensor
		for _, name := range f.Names() {
			x, _ := f.Tensor(name)
			y := *x
			change(name, &y)
			others = append(others, &y)
		}
		_, _, err := FromCheckpoint(f.With(others), ShapeOptions{})
		return err
	}
	for _, c := range []struct{ name, want string }{
		{"emb.weight", "emb.weight: found shape [12928], want two axes"},
		{"blocks.0.att.r_k", "blocks.0.att.r_k: found shape [128], want two axes"},
		{"blocks.1.att.v1", "blocks.1.att.v1: found shape [768], want two axes"},
		{"blocks.1.att.w2", "blocks.1.att.w2: found shape [1024], want [128 8]"},
		{"blocks.1.att.w0", "blocks.1.att.w0: found shape [2 64], want [128]"},
	} {
		err := all(func(name string, x *checkpoint.Tensor) {
			if name == c.name {
				if x.Shape = []int{x.Elements()}; strings.HasSuffix(name, "w0") {
					x.Shape = []int{2, 64}
				}
			}
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), pth) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
	older := file(t, map[string]checkpoint.Tensor{"blocks.0.att.time_decay": checkpoint.NewTensor(
		"blocks.0.att.time_decay", []int{2}, []float32{1, 2})})
	if _, _, err := FromCheckpoint(older, ShapeOptions{}); err == nil ||
		!strings.Contains(err.Error(), "those of earlier versions are not read") {
		t.Errorf("an earlier version: got %v", err)
	}
}

// TestRWKV7Configs checks options that a configuration leaves to the defaults of the class, and unsupported ones.
func TestRWKV7Configs(t *testing.T) {
	folder, _ := rwkv7Files(t)
	data, err := os.ReadFile(filepath.Join(folder, model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	with := func(fields map[string]any) (model.Config, error) {
		var all map[string]any
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
		for key, value := range fields {
			all[key] = value
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := ParseConfig(text)
		if err == nil {
			err = cfg.Validate()
		}
		return cfg, err
	}
	whole, err := with(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, same := range []map[string]any{{"head_dim": nil}, {"intermediate_size": nil}, {"value_dim": 128},
		{"value_dim": nil}, {"num_heads": nil}} {
		if got, err := with(same); err != nil || !reflect.DeepEqual(got, whole) {
			t.Errorf("%v: found %+v, %v, want %+v", same, got, err, whole)
		}
	}
	none := map[string]any{"decay_low_rank_dim": nil, "a_low_rank_dim": nil, "v_low_rank_dim": nil,
		"gate_low_rank_dim": nil}
	const ranks = "g_rank=64,head_size=64,v_rank=32,w_rank=32"
	if got, err := with(none); err != nil || !strings.Contains(got.Layers, ranks) {
		t.Errorf("no ranks: found %s, %v", got.Layers, err)
	}
	if got, err := with(map[string]any{"norm_first": false}); err != nil || got.EmbedNorm {
		t.Errorf("norm_first false: found %+v, %v", got, err)
	}
	for want, fields := range map[string]map[string]any{
		"attn: found":                             {"attn": map[string]any{"layers": []int{1}}},
		"norm_bias: found false":                  {"norm_bias": false},
		`hidden_act: found "relu"`:                {"hidden_act": "relu"},
		"value_dim: found 64":                     {"value_dim": []int{128, 64}},
		"head_dim, num_heads: found heads of 0":   {"head_dim": nil, "num_heads": nil},
		"head_dim, num_heads: found heads of 100": {"head_dim": 100},
		"gate_low_rank_dim: found -1":             {"gate_low_rank_dim": -1},
		"hidden_ratio: found 1e+30":               {"intermediate_size": nil, "hidden_ratio": 1e30},
		"hidden_size: found 0":                    {"hidden_size": 0},
		"num_hidden_layers: found 100000":         {"num_hidden_layers": 100000},
	} {
		if _, err := with(fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want an error with %q", fields, err, want)
		}
	}
}

// TestTurnedMatricesShareMemory checks that a file whose matrices share one piece of memory takes memory in proportion
// to its size.
func TestTurnedMatricesShareMemory(t *testing.T) {
	_, pth := rwkv7Files(t)
	f, err := checkpoint.Open(pth)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	shared := checkpoint.NewTensor("", []int{1 << 10, 1 << 9}, make([]float32, 1<<19)) // 2 MiB
	var many []*checkpoint.Tensor
	for i := range 1000 {
		x := shared
		x.Name = fmt.Sprintf("blocks.%d.att.w1", i+2)
		many = append(many, &x)
	}
	f = f.With(many)
	var failed error
	if n := allocated(func() { _, _, failed = FromCheckpoint(f, ShapeOptions{}) }); n > 64<<20 {
		t.Errorf("%d bytes were allocated for a file of %d", n, f.Size())
	}
	if failed == nil || !strings.Contains(failed.Error(), "found matrices that share their memory") {
		t.Errorf("got %v", failed)
	}
}
