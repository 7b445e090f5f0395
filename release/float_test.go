package release

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// TestDescribeFloat: folders and files of floating point are taken; weights rounded to blocks or to whole numbers are
// named with what to give instead.
func TestDescribeFloat(t *testing.T) {
	const instead = "want [F64 F32 BF16 F16]: the model that these were made from"
	golden := filepath.Join("..", "testdata", "golden", "05_h3_lm_a")
	m, at, err := DescribeFloat(filepath.Join(golden, "model.pt"))
	if err != nil || at != filepath.Join(golden, "model.pt") {
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
	if err := LoadFloat(other, at); err != nil || other.Fingerprint() != m.Fingerprint() {
		t.Errorf("the folder and the file have fingerprints %s and %s: %v", other.Fingerprint(), m.Fingerprint(), err)
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

	const block = "blk.0.ssm_in.weight"
	q, err := checkpoint.ConvertTensor(block, checkpoint.Q8_0, []int{2, 32}, make([]float32, 64))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	values := []checkpoint.GGUFValue{{Key: "general.architecture", Value: "mamba"}}
	if err := checkpoint.WriteGGUF(&b, values, []checkpoint.Tensor{q}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	want = "found quantized weights (" + block + " of Q8_0), " + instead
	if _, _, err := DescribeFloat(path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want %q", path, err, want)
	}
}
