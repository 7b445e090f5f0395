package experiment

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzResult checks that any result.json is either read and compared with settings, or gives an error.
func FuzzResult(f *testing.F) {
	s, err := Find("recall", "h3")
	if err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	r := &Result{Task: s.Config.Task, Recipe: s.Config.Recipe, Published: 1, Where: "a paper", Config: s.Config}
	if err := r.write(dir); err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(dir, ResultFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		if res, err := ReadResult(dir); err == nil {
			_ = s.Config.same(res.Config)
		}
	})
}
