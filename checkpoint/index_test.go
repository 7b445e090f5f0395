package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzIndex checks that any index beside two small files either opens them or is an error, and that nothing outside the
// folder is opened.
func FuzzIndex(f *testing.F) {
	for _, text := range []string{`{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}`,
		`{"weight_map": {"a": "1.safetensors", "b": "../2.safetensors"}, "metadata": {"total_size": 8}}`,
		`{"weight_map": {"a": "/1.safetensors"}}`, `{"weight_map": {"a": ".."}}`, `{"weight_map": {"a": ""}}`, `{}`} {
		f.Add([]byte(text))
	}
	root := f.TempDir()
	dir := filepath.Join(root, "model")
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	files := map[string]string{"1.safetensors": "a", "2.safetensors": "b", "../2.safetensors": "outside"}
	for path, name := range files {
		var out bytes.Buffer
		if err := WriteSafetensors(&out, []Tensor{NewTensor(name, []int{1}, []float32{1})}, nil); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), out.Bytes(), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	path := filepath.Join(dir, "model"+IndexSuffix)
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := OpenIndex(path)
		if err != nil {
			return
		}
		defer x.Close()
		for _, name := range x.Names() {
			tensor, ok := x.Tensor(name)
			if !ok || name == "outside" {
				t.Errorf("found the tensor %q: %v", name, tensor)
			}
		}
		if len(x.Names()) == 0 || x.Size() == 0 {
			t.Error("an index of nothing is no error")
		}
	})
}
