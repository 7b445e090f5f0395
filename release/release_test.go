package release

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// TestFamiliesThatAreNotRead checks that a configuration or tensors of another family are errors that name the family.
// An activation that the mixer does not have is also an error.
func TestFamiliesThatAreNotRead(t *testing.T) {
	for text, want := range map[string]string{
		`{"model_type": "phi3", "hidden_size": 64}`: `model_type: found "phi3", ` +
			`which is not read; want one of bamba, falcon_h1, `,
		`{"model_type": 7}`: `model_type: found "7", which is not read; want one of bamba`,
		`{"model_type": "zamba", "mamba_d_state": 16, "attn_layer_period": 6, "attn_layer_offset": 4, ` +
			`"x": Infinity}`: "(the nearest by the fields of this configuration is jamba)",
		`{"model_type": "mambo"}`: `xlstm, zamba2; did you mean mamba?, or none`,
		`{"model_type": "hyenadna", "d_model": 128, "n_layer": 2}`: `model_type: found "hyenadna", ` +
			`the layout of HyenaDNA's -hf releases, which is not read`,
		`{"model_type": "mamba", "hidden_size": 64, "hidden_act": "gelu"}`:  `hidden_act: found "gelu", want silu`,
		`{"model_type": "mamba2", "hidden_size": 64, "hidden_act": "relu"}`: `hidden_act: found "relu", want silu`,
		`{"model_type": "` + strings.Repeat("x", 1<<20) + `"}`:              `model_type: found "xxx`,
	} {
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			len(err.Error()) > 1<<15 {
			t.Errorf("%.80s: got %.300v, want %q", text, err, want)
		}
	}
	for _, text := range []string{`{"model_type": "mamba", "hidden_size": 64, "hidden_act": "silu"}`,
		`{"model_type": "mamba2", "hidden_size": 64}`, `{"d_model": 8}`} {
		if _, err := ParseConfig([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for name, want := range map[string]string{
		"hyena.backbone.embeddings.word_embeddings.weight": "found tensors hyena.backbone.…, " +
			"the layout of HyenaDNA's -hf releases",
		"model.embed_tokens.weight": "found 1 tensors (model.embed_tokens.weight) and no backbone.embeddings",
	} {
		f := file(t, map[string]checkpoint.Tensor{name: checkpoint.NewTensor(name, []int{2, 3}, make([]float32, 6))})
		if _, err := InferConfig(f, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}
