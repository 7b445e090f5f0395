package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// TestDescribeFloat checks that folders and files with floating-point weights are accepted. Weights rounded to blocks
// or integers are an error that names the alternative.
func TestDescribeFloat(t *testing.T) {
	const instead = "want [F64 F32 BF16 F16]: the model that these were made from"
	published := filepath.Join("..", "testdata", "golden", "05_h3_lm_a", "model.pt")
	m, at, err := DescribeFloat(published)
	if err != nil || at != published {
		t.Fatalf("%s: %v", at, err)
	}
	if err := LoadFloat(m, at); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	other, at, err := DescribeFloat(dir)
	if err != nil || at != dir {
		t.Fatalf("%s: %v", at, err)
	}
	err = LoadFloat(other, at)
	if got, want := other.WeightsFingerprint(), m.WeightsFingerprint(); err != nil || got != want {
		t.Errorf("the folder and the file have fingerprints %s and %s: %v", got, want, err)
	}
	x := tensorsOf(m)
	const rounded = "backbone.layers.0.mlp.fc1.weight"
	shape := x[rounded].Shape
	x[rounded] = checkpoint.NewTensor(rounded, shape, make([]int8, shape[0]*shape[1]))
	f := file(t, x)
	folder := filepath.Dir(f.Path())
	if err := os.WriteFile(filepath.Join(folder, model.ConfigFile), m.Config.JSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "found quantized weights (" + rounded + " of I8), " + instead
	for _, path := range []string{f.Path(), folder} {
		if _, _, err := DescribeFloat(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
		if err := LoadFloat(m, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}

	path := writtenGGUF(t, ggufModel(t, "mamba", nil), GGUFOptions{Type: checkpoint.Q8_0})
	want = "found quantized weights (token_embd.weight of Q8_0, "
	if _, _, err := DescribeFloat(path); err == nil || !strings.Contains(err.Error(), want) ||
		!strings.HasSuffix(err.Error(), instead) {
		t.Errorf("%s: error %v, want %q", path, err, want)
	}
}

// TestFloatOfEveryFamily checks that training can start from the weights of every family, in any layout, in several
// files or in bfloat16, and that the folder that hippo saves has the same weights.
func TestFloatOfEveryFamily(t *testing.T) {
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		dir := hfFolder(c)
		want := must(LoadDir(dir)).WeightsFingerprint()
		saved := checkFloat(t, dir, want)
		d, _, _, err := Compare(dir, saved)
		if err != nil || len(d.OnlyA)+len(d.OnlyB) > 0 {
			t.Fatalf("the folder and what is saved of it: %+v, %v", d, err)
		}
		for _, x := range d.Other {
			if x.Count > 0 || x.TypeA == x.TypeB {
				t.Errorf("the folder and what is saved of it differ: %+v", x)
			}
		}
	})
	for _, kind := range []checkpoint.DType{checkpoint.F32, checkpoint.F16} {
		path := writtenGGUF(t, ggufModel(t, "mamba2(d_state=16,headdim=8)", nil), GGUFOptions{Type: kind})
		checkFloat(t, path, must(LoadDir(path)).WeightsFingerprint())
	}
}

// checkFloat fails unless training can start from the path and its weights have the given fingerprint. It returns the
// folder of the saved model.
func checkFloat(t *testing.T, path, want string) string {
	t.Helper()
	m, at, err := DescribeFloat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := LoadFloat(m, at); err != nil {
		t.Fatal(err)
	}
	saved := t.TempDir()
	if err := m.Save(saved); err != nil {
		t.Fatal(err)
	}
	if got := must(LoadDir(saved)).WeightsFingerprint(); m.WeightsFingerprint() != want || got != want || at != path {
		t.Errorf("%s: the weights of %s are %s, saved %s, want %s", path, at, m.WeightsFingerprint(), got, want)
	}
	return saved
}
