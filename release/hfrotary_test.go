package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// TestHFRotary checks that scalings of rotary positions are read in both dialects, with the defaults of the class.
func TestHFRotary(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(golden.Dir(t), "13_hf_falcon_h1_a", model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	const scaling, base = `"rope_scaling": null`, `"rope_theta": 100000000000.0`
	if !strings.Contains(string(data), scaling) || !strings.Contains(string(data), base) {
		t.Fatalf("the configuration has changed: %s", data)
	}
	for fields, want := range map[string]string{
		`"rope_type": "default"`:               ``,
		`"rope_type": "linear", "factor": 2.5`: `rotary_factor=2.5,rotary_scaling=linear`,
		`"type": "linear", "factor": 2.5`:      `rotary_factor=2.5,rotary_scaling=linear`,
		`"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
			"original_max_position_embeddings": 8192`: `rotary_factor=8,rotary_high=4,rotary_low=1,` +
			`rotary_original=8192,rotary_scaling=llama3`,
		`"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1048576`: `rotary_factor=4,` +
			`rotary_high=32,rotary_low=1,rotary_original=1048576,rotary_scaling=yarn`,
		`"rope_type": "yarn", "factor": null, "original_max_position_embeddings": 128,
			"beta_fast": 16`: `rotary_factor=2,rotary_high=16,rotary_low=1,rotary_original=128,rotary_scaling=yarn`,
		`"rope_type": "yarn", "factor": 40, "attention_factor": 1.5, "truncate": false`: `rotary_exact=true,` +
			`rotary_factor=40,rotary_high=32,rotary_low=1,rotary_magnitude=1.5,rotary_original=256,rotary_scaling=yarn`,
		`"rope_type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_slow": 0`: `rotary_factor=40,` +
			`rotary_high=32,rotary_low=1,rotary_magnitude=1,rotary_original=256,rotary_scaling=yarn`,
	} {
		older := strings.Replace(string(data), scaling, `"rope_scaling": {`+fields+`}`, 1)
		newer := strings.Replace(strings.Replace(string(data), base, `"unread": 0`, 1), scaling,
			`"rope_parameters": {`+fields+`, "rope_theta": 100000000000.0}`, 1)
		for _, text := range []string{older, newer} {
			c, err := ParseConfig([]byte(text))
			if err == nil {
				err = c.Validate()
			}
			if err != nil {
				t.Errorf("%s: %v", fields, err)
				continue
			}
			_, options, _ := strings.Cut(c.Layers, "+attention(")
			options, _, _ = strings.Cut(options, ")")
			var got []string
			for _, pair := range strings.Split(options, ",") {
				if strings.HasPrefix(pair, "rotary_") && !strings.HasPrefix(pair, "rotary_emb_dim") {
					got = append(got, pair)
				}
			}
			all := "rotary_base=1e+11"
			if want != "" {
				all += "," + want
			}
			if found := strings.Join(got, ","); found != all {
				t.Errorf("%s: found %s, want %s", fields, found, all)
			}
		}
	}
}
