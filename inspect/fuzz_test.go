package inspect

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// infoNames lists names of files that hippo info reads in different ways.
var infoNames = []string{"config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
	"generation_config.json", "chat_template.jinja", "model.safetensors.index.json", "model.safetensors", "x.gguf",
	"x-00001-of-00002.gguf", "x.pt"}

// FuzzInfo checks that hippo info describes a file with any content and any of the names, and its folder, or reports
// what is wrong, in bounded memory. The description must be valid text and JSON.
func FuzzInfo(f *testing.F) {
	from := filepath.Join(golden.Dir(f), "13_hf_lfm2_moe_a")
	folder := map[string][]byte{}
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			f.Fatal(err)
		}
		folder[name] = data
	}
	index := `{"weight_map": {"a": "model.safetensors", "b": "../x"}}`
	for i, text := range []string{string(folder["config.json"]), `{"hippo":{"kind":"chars","alphabet":"abc"}}`,
		"\n\x05\n\x01a\x18\x01", `{"chat_template": "{{ 1 }}", "eos_token": {"content": "x"}}`, `{"eos_token_id": 3}`,
		"{% for", index, "\x08\x00\x00\x00\x00\x00\x00\x00{}      ", "GGUF\x03\x00\x00\x00", "GGUF\x02\x00\x00\x00",
		"PK\x03\x04"} {
		f.Add(uint8(i), []byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		name := infoNames[int(which)%len(infoNames)]
		own := filepath.Join(dir, "model")
		if err := os.RemoveAll(own); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		for other, text := range folder {
			if strings.HasPrefix(name, "model.safetensors.") && strings.HasPrefix(other, "model") {
				continue // the index is used only without it
			}
			write(t, filepath.Join(own, other), text)
		}
		write(t, filepath.Join(own, name), data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, path := range []string{own, filepath.Join(own, name)} {
			r := &Report{Path: path}
			err := r.read()
			if r.Kind == "" {
				if err == nil {
					t.Errorf("%s: neither described nor refused", path)
				}
				continue
			}
			var text strings.Builder
			if err := r.Print(&text); err != nil || !utf8.ValidString(text.String()) ||
				strings.Contains(text.String(), "\x1b") {
				t.Errorf("%s: %v: %q", path, err, text.String())
			}
			if err := json.NewEncoder(io.Discard).Encode(r); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		runtime.ReadMemStats(&after)
		if used := int(after.TotalAlloc - before.TotalAlloc); used > 64<<20+512*len(data) {
			t.Errorf("%s: %d bytes were allocated for %d", name, used, len(data))
		}
	})
}

// TestInfoOfShards checks that no file is opened if an index names files elsewhere.
func TestInfoOfShards(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model"+checkpoint.IndexSuffix)
	for _, name := range []string{"../x.safetensors", "/etc/passwd", "", "."} {
		text, err := json.Marshal(map[string]any{"weight_map": map[string]string{"a": name}})
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
		r := &Report{Path: path}
		if err := r.read(); err == nil || !strings.Contains(err.Error(), "want the name of a file of the folder") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
