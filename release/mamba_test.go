package release

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// TestMambaConfigs checks that the config.json of the releases, in both forms, give the presets.
func TestMambaConfigs(t *testing.T) {
	for preset, texts := range map[string][]string{
		"mamba-130m": {
			`{"d_model": 768, "n_layer": 24, "vocab_size": 50277, "ssm_cfg": {}, "rms_norm": true,
				"residual_in_fp32": true,
				"fused_add_norm": true, "pad_vocab_size_multiple": 8}`,
			`{"architectures": ["MambaForCausalLM"], "conv_kernel": 4, "expand": 2, "hidden_act": "silu",
				"hidden_size": 768, "intermediate_size": 1536, "layer_norm_epsilon": 1e-05, "model_type": "mamba",
				"num_hidden_layers": 24, "rescale_prenorm_residual": false, "residual_in_fp32": true, "state_size": 16,
				"time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": "auto",
				"use_bias": false, "use_conv_bias": true, "vocab_size": 50280}`,
		},
		"mamba2-130m": {
			`{"d_model": 768, "d_intermediate": 0, "n_layer": 24, "vocab_size": 50277, "ssm_cfg": {"layer": "Mamba2"},
				"attn_layer_idx": [], "attn_cfg": {}, "rms_norm": true, "residual_in_fp32": true,
				"fused_add_norm": true, "pad_vocab_size_multiple": 16, "tie_embeddings": true}`,
			`{"model_type": "mamba2", "hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50288,
				"state_size": 128, "head_dim": 64, "n_groups": 1, "chunk_size": 256, "rms_norm": true,
				"norm_before_gate": false, "tie_word_embeddings": true, "time_step_rank": 48,
				"time_step_limit": [0.0, Infinity]}`,
		},
	} {
		want, err := model.Preset(preset)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			got, err := ParseConfig([]byte(text))
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			if got.PaddedVocab() != want.PaddedVocab() {
				t.Errorf("%s: %d rows of the table, want %d", text, got.PaddedVocab(), want.PaddedVocab())
			}
			if i == 1 { // the form of transformers has only the padded vocabulary
				got.VocabSize, got.PadVocab = want.VocabSize, want.PadVocab
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", text, got, want)
			}
		}
	}
	got, err := ParseConfig([]byte(`{"model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 9,
		"head_dim": 16, "n_groups": 2,
		"norm_before_gate": true, "use_conv_bias": false, "rms_norm": true, "layer_norm_epsilon": 1e-6}`))
	want := "mamba2(conv_bias=false,headdim=16,ngroups=2,norm_eps=1e-06)" // norm_before_gate is not read
	if err != nil || got.Mixer != want || got.LayerNormEpsilon != 1e-6 {
		t.Errorf("got %+v, %v, want the mixer %s", got, err, want)
	}
}

// TestMambaHeadDim checks that the heads of a narrow model also have the official size.
func TestMambaHeadDim(t *testing.T) {
	for text, want := range map[string]string{
		`{"d_model": 64, "rms_norm": true, "ssm_cfg": {"layer": "Mamba2"}}`:                 "mamba2(headdim=64)",
		`{"d_model": 64, "rms_norm": true, "ssm_cfg": {"layer": "Mamba2", "headdim": 32}}`:  "mamba2(headdim=32)",
		`{"d_model": 64, "rms_norm": true, "ssm_cfg": {"layer": "Mamba2", "expand": 4}}`:    "mamba2(expand=4)",
		`{"model_type": "mamba2", "hidden_size": 64, "n_groups": 1, "head_dim": 64}`:        "mamba2(headdim=64)",
		`{"d_model": 64, "rms_norm": true, "ssm_cfg": {"layer": "Mamba1", "dt_rank": 4.0}}`: "mamba(dt_rank=4)",
	} {
		if got, err := ParseConfig([]byte(text)); err != nil || got.Mixer != want {
			t.Errorf("%s: got the mixer %s, %v, want %s", text, got.Mixer, err, want)
		}
	}
}

// TestMambaConfigErrors checks that the error for an unsupported setting names its field.
func TestMambaConfigErrors(t *testing.T) {
	for field, text := range map[string]string{
		"d_intermediate":  `{"rms_norm": true, "d_intermediate": 64}`,
		"attn_layer_idx":  `{"rms_norm": true, "attn_layer_idx": [3]}`,
		"ssm_cfg.layer":   `{"rms_norm": true, "ssm_cfg": {"layer": "Mamba3"}}`,
		"ssm_cfg.d_ssm":   `{"rms_norm": true, "ssm_cfg": {"d_ssm": 4}}`,
		"d_state":         `{"rms_norm": true, "ssm_cfg": {"d_state": "(3)"}}`,
		"time_step_limit": `{"model_type": "mamba2", "hidden_size": 64, "time_step_limit": [0.2, 0.1]}`,
		"num_hidden_laye": `{"model_type": "mamba", "num_hidden_layers": "many"}`,
	} {
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v, want one that names %s", text, err, field)
		}
	}
}

// TestInferMamba2 checks that the configuration of a Mamba-2 model is inferred from its tensors, and that tensors of
// other models are an error.
func TestInferMamba2(t *testing.T) {
	c, err := model.Preset("mamba2-130m")
	if err != nil {
		t.Fatal(err)
	}
	c.Mixer = "mamba2(d_state=3,headdim=8,rmsnorm=false,conv_bias=false,bias=true)"
	c.DModel, c.NLayer, c.PadVocab, c.VocabSize = 16, 2, 8, 24
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	tensors := tensorsOf(m)
	got, err := InferConfig(file(t, tensors), 0)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := model.New(got); err != nil || same.NumParams() != m.NumParams() ||
		Load(same, file(t, tensors)) != nil {
		t.Errorf("got %+v, want %+v", got, c)
	}
	for _, name := range []string{"backbone.embedding.weight", "backbone.layers.0.mixer.conv1d.weight",
		"backbone.layers.0.mixer.A_log"} {
		broken := tensorsOf(m)
		broken[name] = checkpoint.NewTensor(name, []int{1, 1, 1, 1}, []float32{1})
		if _, err := InferConfig(file(t, broken), 0); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s misshapen: error %v", name, err)
		}
	}
}

// TestMambaNames checks that the names of the release and of the transformers library are mapped to those of the
// release.
func TestMambaNames(t *testing.T) {
	official := []string{"backbone.embedding.weight", "backbone.layers.0.norm.weight", "backbone.norm_f.weight",
		"lm_head.weight"}
	transformers := []string{"backbone.embeddings.weight", "backbone.layers.0.norm.weight", "backbone.norm_f.weight"}
	for _, c := range []struct {
		names []string
		want  map[string]string
	}{
		{official, map[string]string{official[0]: official[0], official[1]: official[1], official[2]: official[2],
			official[3]: official[3]}},
		{transformers, map[string]string{official[0]: transformers[0], official[1]: official[1],
			official[2]: official[2]}},
	} {
		got, err := mambaNames(c.names)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%v: got %v, %v", c.names, got, err)
		}
		if !isMambaNames(c.names) {
			t.Errorf("%v are not taken for those of Mamba", c.names)
		}
	}
	if _, err := mambaNames(append(transformers, official[0])); err == nil {
		t.Error("two tables for one: no error")
	}
	if isMambaNames(norms) {
		t.Error("the names of H3 are taken for those of Mamba")
	}
}
