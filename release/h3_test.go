package release

import (
	"maps"
	"strings"
	"testing"
)

// norms lists the names of the norms of two layers in the official order.
var norms = []string{"backbone.layers.0.norm1.weight", "backbone.layers.0.norm2.weight",
	"backbone.layers.1.norm1.weight",
	"backbone.layers.1.norm2.weight", "backbone.ln_f.weight"}

func TestH3Names(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		want  map[string]string
	}{
		"official": {
			[]string{"backbone.ln_f.weight", "lm_head.weight", "backbone.layers.0.norm1.bias"},
			map[string]string{"backbone.ln_f.weight": "backbone.ln_f.weight", "lm_head.weight": "lm_head.weight",
				"backbone.layers.0.norm1.bias": "backbone.layers.0.norm1.bias"},
		},
		"Lightning, which drops the rest": {
			[]string{"model.lm_head.weight", "loss_fn.weight"},
			map[string]string{"lm_head.weight": "model.lm_head.weight"},
		},
		"older names": {
			[]string{"embedding.weight", "s4seq.encoder.layers.3.mlp.fc1.bias", "lm_head.weight"},
			map[string]string{"backbone.embeddings.word_embeddings.weight": "embedding.weight",
				"backbone.layers.3.mlp.fc1.bias": "s4seq.encoder.layers.3.mlp.fc1.bias",
				"lm_head.weight":                 "lm_head.weight"},
		},
		"older names in Lightning": {
			[]string{"model.embedding.weight"},
			map[string]string{"backbone.embeddings.word_embeddings.weight": "model.embedding.weight"},
		},
		"older order": {
			[]string{"s4seq.encoder.norm.weight", "s4seq.encoder.layers.0.norm1.weight",
				"s4seq.encoder.layers.0.norm2.weight",
				"s4seq.encoder.layers.1.norm1.weight", "s4seq.encoder.layers.1.norm2.weight"},
			map[string]string{norms[0]: "s4seq.encoder.norm.weight", norms[1]: "s4seq.encoder.layers.0.norm1.weight",
				norms[2]: "s4seq.encoder.layers.0.norm2.weight", norms[3]: "s4seq.encoder.layers.1.norm1.weight",
				norms[4]: "s4seq.encoder.layers.1.norm2.weight"},
		},
		"older order with the name ln_0": {
			[]string{"backbone.ln_0.weight", "backbone.layers.0.norm1.weight", "backbone.layers.0.norm2.weight"},
			map[string]string{norms[0]: "backbone.ln_0.weight", norms[1]: norms[0], norms[4]: norms[1]},
		},
		"checkpointed activations": {
			[]string{"model.backbone.layers.0.mixer.layer.in_proj.weight",
				"model.backbone.layers.0.mlp.layer.fc1.bias"},
			map[string]string{
				"backbone.layers.0.mixer.in_proj.weight": "model.backbone.layers.0.mixer.layer.in_proj.weight",
				"backbone.layers.0.mlp.fc1.bias":         "model.backbone.layers.0.mlp.layer.fc1.bias"},
		},
		"nothing": {nil, map[string]string{}},
	} {
		got, err := h3Names(c.names)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v\nwant %v", name, got, err, c.want)
		}
	}
}

func TestH3NamesErrors(t *testing.T) {
	for _, c := range []struct{ names, words []string }{
		{[]string{"embedding.weight", "backbone.embeddings.word_embeddings.weight"},
			[]string{`"embedding.weight"`, `"backbone.embeddings.word_embeddings.weight"`}},
		{[]string{"backbone.ln_0.weight", "backbone.layers.0.norm1.weight"},
			[]string{"older order", `"backbone.layers.0.norm2.weight"`}},
		{[]string{"s4seq.encoder.norm.bias", "backbone.layers.1.norm1.bias", "a", "b"},
			[]string{`"s4seq.encoder.norm.bias"`, `"backbone.layers.0.norm1.bias"`}},
		{[]string{"backbone.ln_0.weight", "backbone.layers.0.norm1.weight", "backbone.layers.0.norm2.weight",
			"backbone.ln_f.weight"}, []string{`"backbone.ln_f.weight"`}},
	} {
		_, err := h3Names(c.names)
		for _, word := range c.words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%q: error %v, want one with %s", c.names, err, word)
			}
		}
	}
}
