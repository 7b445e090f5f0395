package release

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// ggufModel returns a small model that llama.cpp supports: two layers of a mixer.
func ggufModel(t testing.TB, mixer string, change func(*model.Config)) *model.Model {
	t.Helper()
	c := model.DefaultConfig()
	c.Norm, c.MLP, c.EmbedDropout, c.AttnDropout = model.NormRMS, model.MLPNone, 0, 0
	c.DModel, c.NLayer, c.VocabSize, c.Mixer = 32, 2, 270, mixer
	if change != nil {
		change(&c)
	}
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(3)
	m.Params("", func(name string, p *nn.Param) { // parameters that are all ones or zeros would hide errors
		if !strings.HasSuffix(name, ".D") && !strings.Contains(name, "norm") && !strings.HasSuffix(name, "bias") {
			return
		}
		for i, x := 0, p.Data(); i < len(x); i++ {
			x[i] += 0.2 * float32(math.Sin(float64(i+len(name))))
		}
	})
	return m
}

// ggufLogits returns the logits of a text.
func ggufLogits(m *model.Model) []float32 {
	return textLogits(m, func(i int) int32 { return int32(i*7919+13) % 250 })
}

// textLogits returns the logits of 20 tokens.
func textLogits(m *model.Model, token func(int) int32) []float32 {
	ids := make([]int32, 20)
	for i := range ids {
		ids[i] = token(i)
	}
	tape := autograd.NewTape(cpu.Backend{})
	return read(m.Logits(tape, m.Forward(tape, ids, model.EqualRows(1, len(ids)))))
}

// furthest returns the largest difference, relative to the deviation of want.
func furthest(t *testing.T, got, want []float32) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("found %d logits, want %d", len(got), len(want))
	}
	most, sum := 0.0, 0.0
	for i := range want {
		most = max(most, math.Abs(float64(got[i])-float64(want[i])))
		sum += float64(want[i]) * float64(want[i])
	}
	return most / math.Sqrt(sum/float64(len(want)))
}

// writtenGGUF writes a model as a GGUF file and returns its path.
func writtenGGUF(t testing.TB, m *model.Model, o GGUFOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteGGUF(&b, m, o); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGGUFModelsRoundTrip checks that a model written and read back is the same up to the rounding of its type.
func TestGGUFModelsRoundTrip(t *testing.T) {
	// A is -exp of a parameter, so its logarithm is rounded twice. f16 has 11 bits. A block of Q8_0 has steps of 1/127
	// of its largest number, whose errors add up in the following layers.
	rounding := map[checkpoint.DType]float64{checkpoint.F32: 1e-5, checkpoint.F16: 0.02, checkpoint.Q8_0: 0.2}
	for _, c := range []struct {
		mixer  string
		change func(*model.Config)
	}{
		{"mamba", nil},
		{"mamba(bcdt_norm=rms,d_conv=3,d_state=8,dt_rank=4)", nil},
		{"mamba", func(c *model.Config) { c.UntiedHead, c.PadVocab, c.VocabSize = true, 1, 261 }},
		{"mamba2(d_state=16,headdim=8)", nil},
		{"mamba2(d_state=8,headdim=32,ngroups=2,norm_eps=0.001)",
			func(c *model.Config) { c.LayerNormEpsilon = 0.001 }},
	} {
		m := ggufModel(t, c.mixer, c.change)
		want := ggufLogits(m)
		for kind, most := range rounding {
			path := writtenGGUF(t, m, GGUFOptions{Type: kind, Tokenizer: tokenizer.Bytes()})
			got, from, err := LoadDir(path)
			if err != nil {
				t.Errorf("%s, %s: %v", c.mixer, kind, err)
				continue
			}
			if d := furthest(t, ggufLogits(got), want); d > most || from != path {
				t.Errorf("%s, %s: logits of %s differ by %.2g of their deviation, want at most %g", c.mixer, kind,
					from, d, most)
			}
			if got.Config.Mixer != m.Config.Mixer || got.Config.LayerNormEpsilon != m.Config.LayerNormEpsilon ||
				got.Config.PaddedVocab() != m.Config.PaddedVocab() || got.Config.VocabSize != 256 {
				t.Errorf("%s, %s: the configuration is %+v", c.mixer, kind, got.Config)
			}
			again := writtenGGUF(t, got, GGUFOptions{Type: kind, Tokenizer: tokenizer.Bytes()})
			if kind == checkpoint.F32 && furthest(t, ggufLogits(must(LoadDir(again))), want) > most {
				t.Errorf("%s: written again it is another model", c.mixer)
			}
		}
	}
}

func must(m *model.Model, _ string, err error) *model.Model {
	if err != nil {
		panic(err)
	}
	return m
}

// TestGGUFFilterWithoutBias checks that a filter without a bias is written with a bias of zeros, which llama.cpp
// requires, and that a filter without a bias in the file has none in the model.
func TestGGUFFilterWithoutBias(t *testing.T) {
	m := ggufModel(t, "mamba(conv_bias=false)", nil)
	path := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32})
	got := must(LoadDir(path))
	if d := furthest(t, ggufLogits(got), ggufLogits(m)); d > 1e-5 || got.Config.Mixer != "mamba" {
		t.Errorf("with zeros: differs by %g, mixer %s", d, got.Config.Mixer)
	}
	values, tensors := llamaFile(llamaModel(t, "mamba"), "mamba", checkpoint.F32)
	delete(tensors, "blk.0.ssm_conv1d.bias")
	delete(tensors, "blk.1.ssm_conv1d.bias")
	got, _, err := LoadDir(llamaPath(t, values, tensors))
	if err != nil || got.Config.Mixer != "mamba(conv_bias=false)" {
		t.Errorf("without: %v", err)
	}
}

// llamaFile returns the result of llama.cpp's conversion for a model of ggufModel, written by hand: names, shapes and
// types of tensors.
func llamaFile(m *model.Model, arch string, kind checkpoint.DType) (map[string]any, map[string]checkpoint.Tensor) {
	values := map[string]any{
		"general.architecture": arch, arch + ".context_length": uint32(1 << 20),
		arch + ".embedding_length": uint32(32), arch + ".feed_forward_length": uint32(0),
		arch + ".block_count": uint32(2), arch + ".attention.head_count": uint32(0),
		arch + ".attention.layer_norm_rms_epsilon": float32(1e-5),
		arch + ".ssm.conv_kernel":                  uint32(4), arch + ".ssm.inner_size": uint32(64),
	}
	if arch == "mamba" {
		values["mamba.ssm.state_size"], values["mamba.ssm.time_step_rank"] = uint32(16), uint32(2)
		values["mamba.ssm.dt_b_c_rms"] = false
	} else { // 8 heads of 8 channels in 2 groups
		values["mamba2.ssm.state_size"], values["mamba2.ssm.time_step_rank"] = uint32(12), uint32(8)
		values["mamba2.ssm.group_count"] = uint32(2)
	}
	own := tensorsOf(m)
	tensors := map[string]checkpoint.Tensor{}
	put := func(name, param string, kind checkpoint.DType, change func(float32) float32, shape ...int) {
		x := own[param]
		v, err := x.Float32()
		if err != nil {
			panic(err)
		}
		for i := range v {
			if change != nil {
				v[i] = change(v[i])
			}
		}
		if shape[len(shape)-1]%32 != 0 && kind == checkpoint.Q8_0 {
			kind = checkpoint.F16
		}
		y, err := checkpoint.ConvertTensor(name, kind, shape, v)
		if err != nil {
			panic(err)
		}
		tensors[name] = y
	}
	f32 := checkpoint.F32
	negExp := func(x float32) float32 { return float32(-math.Exp(float64(x))) }
	put("token_embd.weight", "backbone.embedding.weight", kind, nil, 272, 32)
	put("output_norm.weight", "backbone.norm_f.weight", f32, nil, 32)
	for i := range 2 {
		b, p := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("backbone.layers.%d.", i)
		put(b+"attn_norm.weight", p+"norm.weight", f32, nil, 32)
		put(b+"ssm_out.weight", p+"mixer.out_proj.weight", kind, nil, 32, 64)
		if arch == "mamba" {
			put(b+"ssm_in.weight", p+"mixer.in_proj.weight", kind, nil, 128, 32)
			put(b+"ssm_conv1d.weight", p+"mixer.conv1d.weight", f32, nil, 64, 4)
			put(b+"ssm_conv1d.bias", p+"mixer.conv1d.bias", f32, nil, 64)
			put(b+"ssm_x.weight", p+"mixer.x_proj.weight", kind, nil, 34, 64)
			put(b+"ssm_dt.weight", p+"mixer.dt_proj.weight", kind, nil, 64, 2)
			put(b+"ssm_dt.bias", p+"mixer.dt_proj.bias", f32, nil, 64)
			put(b+"ssm_a", p+"mixer.A_log", f32, negExp, 64, 16)
			put(b+"ssm_d", p+"mixer.D", f32, nil, 64)
			continue
		}
		put(b+"ssm_in.weight", p+"mixer.in_proj.weight", kind, nil, 64+64+48+8, 32)
		put(b+"ssm_conv1d.weight", p+"mixer.conv1d.weight", f32, nil, 64+48, 4)
		put(b+"ssm_conv1d.bias", p+"mixer.conv1d.bias", f32, nil, 64+48)
		put(b+"ssm_dt.bias", p+"mixer.dt_bias", f32, nil, 8)
		put(b+"ssm_a", p+"mixer.A_log", f32, negExp, 8, 1)
		put(b+"ssm_d", p+"mixer.D", f32, nil, 8, 1)
		put(b+"ssm_norm.weight", p+"mixer.norm.weight", f32, nil, 2, 32)
	}
	return values, tensors
}

// llamaModel returns the model for llamaFile.
func llamaModel(t testing.TB, arch string) *model.Model {
	mixer := "mamba"
	if arch == "mamba2" {
		mixer = "mamba2(d_state=12,headdim=8,ngroups=2)"
	}
	return ggufModel(t, mixer, nil)
}

// llamaPath writes a file and returns its path.
func llamaPath(t testing.TB, values map[string]any, tensors map[string]checkpoint.Tensor) string {
	t.Helper()
	var list []checkpoint.GGUFValue
	for _, key := range slices.Sorted(maps.Keys(values)) {
		list = append(list, checkpoint.GGUFValue{Key: key, Value: values[key]})
	}
	var all []checkpoint.Tensor
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		all = append(all, tensors[name])
	}
	var b bytes.Buffer
	if err := checkpoint.WriteGGUF(&b, list, all); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGGUFOfLlamaCpp checks that files of llama.cpp's conversion are loaded as their original models, parameter by
// parameter: A is a logarithm again, the filter has its middle axis, A and D of Mamba-2 have one axis, its norm is one
// row, the size of heads follows from their number, an omitted head is the embedding, and rows of another type are
// read.
func TestGGUFOfLlamaCpp(t *testing.T) {
	for _, arch := range []string{"mamba", "mamba2"} {
		m := llamaModel(t, arch)
		for _, kind := range []checkpoint.DType{checkpoint.F32, checkpoint.F16, checkpoint.BF16, checkpoint.Q8_0} {
			values, tensors := llamaFile(m, arch, kind)
			got, _, err := LoadDir(llamaPath(t, values, tensors))
			if err != nil {
				t.Errorf("%s, %s: %v", arch, kind, err)
				continue
			}
			if got.Config.Mixer != m.Config.Mixer || got.Config.UntiedHead {
				t.Errorf("%s, %s: the configuration is %+v", arch, kind, got.Config)
			}
			want := tensorsOf(m)
			for name, x := range tensorsOf(got) {
				exact := kind == checkpoint.F32 || !strings.HasSuffix(name, "proj.weight") && name != mambaTable
				most := 1e-6
				if !exact {
					most = 0.01 // the largest step of these types
				}
				w := want[name]
				a, _ := x.Float32()
				b, err := w.Float32()
				if err != nil || !slices.Equal(x.Shape, w.Shape) {
					t.Fatalf("%s, %s: %s has shape %v, want %v", arch, kind, name, x.Shape, w.Shape)
				}
				for i := range a {
					if math.Abs(float64(a[i]-b[i])) > most*max(1, math.Abs(float64(b[i]))) {
						t.Errorf("%s, %s: %s[%d] is %g, want %g", arch, kind, name, i, a[i], b[i])
						break
					}
				}
			}
		}
	}
}
