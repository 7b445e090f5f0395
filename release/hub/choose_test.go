package hub

import (
	"slices"
	"strings"
	"testing"
)

// TestChoice lists the chosen files of repositories of all kinds.
func TestChoice(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name  string
		files string
		want  string // weights, then others
		err   string
	}{
		{"o/n", "model.pt README.md", "model.pt", ""},
		{"o/n", "pytorch_model.bin config.json training_args.bin optimizer.pt rng_state_0.pth",
			"pytorch_model.bin config.json", ""},
		{"o/n", "a.pt b.pt", "", "want the name of one by --file: a.pt, b.pt"},
		{"o/n", "a.safetensors b.safetensors sub/c.safetensors", "a.safetensors b.safetensors", ""},
		{"o/n", "x-F16.gguf README.md", "x-F16.gguf", ""},
		{"o/n", "x-F16.gguf x-Q8_0.gguf", "", "want the name of one by o/n:QUANTISATION: x-F16.gguf, x-Q8_0.gguf"},
		{"o/n:q8_0", "x-F16.gguf x-Q8_0.gguf x.Q8_0.txt config.json", "x-Q8_0.gguf", ""},
		{"o/n:Q4_K", "x-Q4_K_M.gguf x-Q4_K_S.gguf", "", "found no .gguf file of Q4_K (x-Q4_K_M.gguf, x-Q4_K_S.gguf)"},
		{"o/n:Q4_K_M", "x-Q4_K_M.gguf Q4_K_M/x-Q8_0.gguf mmproj-Q4_K_M.gguf", "x-Q4_K_M.gguf", ""},
		{"o/n:F16", "x-F16-00001-of-00002.gguf x-F16-00002-of-00002.gguf",
			"x-F16-00001-of-00002.gguf x-F16-00002-of-00002.gguf", ""},
		{"o/n:F16", "x-F16-00001-of-00003.gguf x-F16-00002-of-00003.gguf", "",
			"found 2 parts of x-F16-00001-of-00003.gguf"},
		{"o/n:sub/x.safetensors", "config.json sub/x.safetensors model.safetensors",
			"sub/x.safetensors config.json", ""},
		{"o/n:x.gguf", "config.json x.gguf y.gguf", "x.gguf", ""},
		{"o/n:y.gguf", "x.gguf", "", "found no file y.gguf (x.gguf)"},
		{"o/n", "README.md", "", "found no weights among its 1 files (README.md)"},
		{"o/n", "model.safetensors x.gguf pytorch_model.bin tokenizer.model merges.txt vocab.json " +
			"generation_config.json chat_template.jinja special_tokens_map.json",
			"model.safetensors generation_config.json tokenizer.model special_tokens_map.json vocab.json merges.txt " +
				"chat_template.jinja", ""},
	} {
		var files []File
		for _, p := range strings.Fields(x.files) {
			files = append(files, File{Path: p})
		}
		found, err := newChooser(mustParse(t, x.name), files, nil).choose()
		if x.err != "" {
			wantError(t, err, x.err)
			continue
		}
		if got := strings.Join(found.all(), " "); err != nil || got != x.want {
			t.Errorf("%s of %q: found %q (%v), want %q", x.name, x.files, got, err, x.want)
		}
	}
}

// TestParseName lists names and what they mean.
func TestParseName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Name{
		"gpt2":                   {Repo: "gpt2"},
		"org/name":               {Repo: "org/name"},
		"org/name:Q8_0":          {Repo: "org/name", Quant: "Q8_0"},
		"org/name:iq4_xs":        {Repo: "org/name", Quant: "IQ4_XS"},
		"org/name:a/b.gguf":      {Repo: "org/name", Files: []string{"a/b.gguf"}},
		"org/name:v1.0":          {Repo: "org/name", Revision: "v1.0"},
		"org/name:refs/pr/1":     {Repo: "org/name", Revision: "refs/pr/1"},
		"org/name:v1:BF16":       {Repo: "org/name", Revision: "v1", Quant: "BF16"},
		"org/name:v1:model.pt":   {Repo: "org/name", Revision: "v1", Files: []string{"model.pt"}},
		"Org_1/n.a-m_e.2.5B-hf":  {Repo: "Org_1/n.a-m_e.2.5B-hf"},
		"org/name:pytorch_x.bin": {Repo: "org/name", Files: []string{"pytorch_x.bin"}},
	} {
		got, err := ParseName(text)
		if err != nil || got.Repo != want.Repo || got.Revision != want.Revision || got.Quant != want.Quant ||
			!slices.Equal(got.Files, want.Files) {
			t.Errorf("%s: found %+v (%v), want %+v", text, got, err, want)
		}
		if again, err := ParseName(got.String()); err != nil || again.String() != got.String() {
			t.Errorf("%s: its name %s is another: %s (%v)", text, got, again, err)
		}
	}
	for _, text := range []string{"", "/", "a/b/c", "../x", "a/..", "a..b", "a--b/c", "/etc/passwd", "org/na me",
		"-x/y",
		"org/name:", "org/name:../../x", "org/name:/x.gguf", "org/name:a:b", "org/name:v1:", "org/\x1bname",
		"org/name.git", "org/" + strings.Repeat("x", 300)} {
		if n, err := ParseName(text); err == nil {
			t.Errorf("%q is taken for %+v", text, n)
		}
	}
}
