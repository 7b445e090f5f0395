package release

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// good returns a valid configuration.
func good() model.Config {
	c := model.DefaultConfig()
	c.DModel, c.NLayer, c.NumHeads, c.AttnIdx, c.VocabSize = 64, 3, 4, []int{1}, 100
	return c
}

// TestParseConfig reads hippo's flat form and the nested form of the official constructor.
func TestParseConfig(t *testing.T) {
	official := `{"d_model": 768, "n_layer": 12, "d_inner": 3072, "vocab_size": 50257,
		"ssm_cfg": {"mode": "diag", "measure": "diag-inv",
		"d_state": 32, "head_dim": 8, "dt_min": 0.01, "dt_max": 0.2}, "attn_layer_idx": [6],
		"attn_cfg": {"num_heads": 12, "rotary_emb_dim": 32, "dropout": 0.2}, "pad_vocab_size_multiple": 8,
		"unknown": [1]}`
	flat := `{"d_model": 768, "n_layer": 12, "d_inner": 3072, "vocab_size": 50257, "measure": "diag-inv", "d_state": 32,
		"head_dim": 8, "dt_min": 0.01, "dt_max": 0.2, "attn_layer_idx": [6], "num_heads": 12, "rotary_emb_dim": 32,
		"attn_dropout": 0.2}`
	a, err := ParseConfig([]byte(official))
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseConfig([]byte(flat))
	if err != nil {
		t.Fatal(err)
	}
	want := model.DefaultConfig()
	want.DModel, want.NLayer, want.NumHeads, want.AttnIdx = 768, 12, 12, []int{6}
	want.DInner, want.VocabSize, want.Measure, want.DState, want.HeadDim = 3072, 50257, "diag-inv", 32, 8
	want.DtMin, want.DtMax, want.Rotary, want.AttnDropout = 0.01, 0.2, 32, 0.2
	if !reflect.DeepEqual(a, want) || !reflect.DeepEqual(b, want) {
		t.Errorf("official form %+v\nflat form     %+v\nwant          %+v", a, b, want)
	}
	for _, bad := range []string{"", "[]", `{"d_model": "wide"}`, `{"d_model": 1.5}`, `{"ssm_cfg": {"mode": "nplr"}}`,
		`{"ssm_cfg": 3}`, `{"d_model": 4`} {
		if _, err := ParseConfig([]byte(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// TestConfigJSON checks that ParseConfig reads the output of JSON.
func TestConfigJSON(t *testing.T) {
	for _, name := range model.Presets() {
		c, err := model.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		c.Layers, c.Rotary, c.HeadOrder, c.ResidDropout, c.DtMin = "h3,attention", 4, "hd", 0.25, 0.1/3
		got, err := ParseConfig(c.JSON())
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c)
		}
	}
}

// TestReadConfig checks that errors contain the file and the field.
func TestReadConfig(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadConfig(dir); err == nil || !strings.Contains(err.Error(), model.ConfigFile) {
		t.Errorf("no file: error %v", err)
	}
	c := good()
	c.NumHeads = 5
	if err := os.WriteFile(filepath.Join(dir, model.ConfigFile), c.JSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, model.ConfigFile)) ||
		!strings.Contains(err.Error(), "num_heads") {
		t.Errorf("a bad number of heads: error %v", err)
	}
}

func FuzzParseConfig(f *testing.F) {
	c := good()
	f.Add(c.JSON())
	f.Add([]byte(`{"layers": "h3*3,attention", "ssm_cfg": {"d_state": 4}, "attn_cfg": {"num_heads": 2}, "vocab_size": 3,
		"d_model": 8}`))
	f.Add([]byte(`{"rms_norm": true, "ssm_cfg": {"layer": "Mamba2", "d_state": 4}, "vocab_size": 3, "d_model": 8,
		"n_layer": 2}`))
	f.Add([]byte(`{"model_type": "mamba", "state_size": 4, "time_step_rank": "auto", "vocab_size": 3, "hidden_size": 8,
		"num_hidden_layers": 1}`))
	for _, pattern := range []string{"config.json", "config_v5.json"} {
		paths, err := filepath.Glob(filepath.Join(golden.Dir(f), "13_hf_*", pattern))
		if err != nil || len(paths) == 0 {
			f.Fatal(paths, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil || c.Validate() != nil {
			return
		}
		if plan, err := c.Plan(); err != nil || len(plan) > 100 {
			return // valid but slow
		}
		if _, err := model.New(c); err != nil {
			t.Errorf("Validate accepts what New refuses: %v", err)
		}
		again, err := ParseConfig(c.JSON())
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v becomes %+v, %v", c, again, err)
		}
	})
}
