package release

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// ggufOf lists, for each golden model of a family, what prevents writing it as a GGUF file, or "". It is the table of
// docs/models.md.
var ggufOf = map[string]string{
	"mamba": "", "falcon_mamba": "norm_eps: found 1e-06, want 1e-05", "mamba2": "", "mamba2_codestral": "",
	"mamba_bias": "d_inner: found 96, want 64", "mamba2_limit": "dt_",
	"bamba": "", "granite_h": "", "granite_h_rope": "in_bias: found true, want false", "granite_h_moe": "",
	"granite_h_bf16_sharded": "", "falcon_h1": "", "falcon_h1_norm": "in_bias: found true, want false",
	"falcon_h1_normfirst": "norm_before_gate: found true, want false",
	"nemotron_h":          "", "nemotron_h_moe": "", "lfm2": "", "lfm2_5": "", "lfm2_moe": "",
	"jamba": "", "jamba_dense": "",
	"gpt2": "", "llama": "", "mistral": "found window-attention in layers", "qwen2": "", "qwen3": "",
	"recurrent_gemma": "found rg-lru in layers", "recurrent_gemma_window": "found rg-lru in layers",
	"qwen3_5": "", "qwen3_5_moe": "", "qwen3_next": "",
	"olmo_hybrid": "norm-after",
	"xlstm":       "found mlstm in layers",
	"rwkv7":       "",
	"kimi_linear": "",
	"zamba2":      "found zamba2-shared in layers", "zamba2_2blocks": "found zamba2-shared in layers",
}

// TestGGUFOfEveryFamily checks that a model of each family is written as a GGUF file with the same logits, or that the
// error names the mixers or options that prevent it.
func TestGGUFOfEveryFamily(t *testing.T) {
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(hfFolder(c)), "13_hf_"), "_a")
		want, listed := ggufOf[name]
		if !listed {
			t.Fatalf("the table does not have %s", name)
		}
		m, _, err := LoadDir(hfFolder(c))
		if err != nil {
			t.Fatal(err)
		}
		if want != "" {
			err := WriteGGUF(io.Discard, m, GGUFOptions{Type: checkpoint.F32})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
			return
		}
		got, _, err := LoadDir(writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32}))
		if err != nil {
			t.Fatal(err)
		}
		if d := furthest(t, hybridLogits(got), hybridLogits(m)); d > 1e-5 {
			t.Errorf("logits differ by %.2g of their deviation", d)
		}
	})
	text, err := os.ReadFile(filepath.Join("..", "docs", "models.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Families() {
		if !strings.Contains(string(text), "| `"+name+"` | written") && !strings.Contains(string(text), "| `"+name+
			"` | not written") {
			t.Errorf("docs/models.md does not say whether %s is written", name)
		}
	}
	m := ggufModel(t, "mamba", func(c *model.Config) { c.Layers = "h3*2,attention,h3" })
	err = WriteGGUF(io.Discard, m, GGUFOptions{Type: checkpoint.F32})
	if err == nil || !strings.Contains(err.Error(), "found h3 in layers 0, 1, 3, which it does not have") {
		t.Errorf("h3: %v", err)
	}
}
