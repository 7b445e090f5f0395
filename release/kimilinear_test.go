package release

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// kimiWith returns a copy of the golden folder with other tensors. change returns nil for a tensor that is omitted.
func kimiWith(t *testing.T, as checkpoint.DType, change func(x checkpoint.Tensor) *checkpoint.Tensor) string {
	t.Helper()
	dir := hfCopy(t, "13_hf_kimi_linear_a", nil)
	path := filepath.Join(dir, model.WeightsFile)
	f, err := checkpoint.OpenSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []checkpoint.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		values, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		y, err := checkpoint.ConvertTensor(name, as, x.Shape, values)
		if err != nil {
			t.Fatal(err)
		}
		if z := change(y); z != nil {
			tensors = append(tensors, *z)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := checkpoint.WriteSafetensors(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestKimiForms checks that tensors of bfloat16, and decays stored as (h), as in fla's layers, are read and written
// again unchanged. Missing tensors and wrong shapes are reported with the names in the file.
func TestKimiForms(t *testing.T) {
	dir := kimiWith(t, checkpoint.BF16, func(x checkpoint.Tensor) *checkpoint.Tensor {
		if strings.HasSuffix(x.Name, "A_log") {
			x.Shape = []int{4}
		}
		return &x
	})
	m, p := openHF(t, dir)
	f, err := OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	config, err := os.ReadFile(filepath.Join(dir, model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if names := differing(t, dir, hfWritten(t, m, config, f)); len(names) > 0 {
		t.Errorf("other tensors %q", names)
	}
	if p.config.VocabSize != 101 || !slices.Contains(Families(), "kimi_linear") {
		t.Errorf("%+v", p.config)
	}
	const matrix = "model.layers.3.self_attn.kv_b_proj.weight"
	wantError(t, kimiWith(t, checkpoint.F32, func(x checkpoint.Tensor) *checkpoint.Tensor {
		if x.Name == matrix {
			return nil
		}
		return &x
	}), matrix+": missing, want shape [72 12]")
	wantError(t, kimiWith(t, checkpoint.F32, func(x checkpoint.Tensor) *checkpoint.Tensor {
		if x.Name == matrix {
			x.Shape = []int{12, 72}
		}
		return &x
	}), matrix+": found shape [12 72], want [72 12]", model.WeightsFile)
}

// TestKimiWeightsOfExperts checks that the bias only affects the choice of experts. Moonshot's class also adds it to
// their weights, which gives other logits.
func TestKimiWeightsOfExperts(t *testing.T) {
	golden.Run(t, "13_hf_kimi_linear", func(t *testing.T, c golden.Case) {
		m, _ := openHF(t, hfFolder(c))
		got, other := logitsOf(m, ids32(c.I64("in/ids")), c.Shape("in/ids")[0]), c.F64("out/logits_biased_weights")
		furthest := 0.0
		for i, x := range got {
			furthest = max(furthest, other[i]-float64(x), float64(x)-other[i])
		}
		if furthest < 1 {
			t.Errorf("at most %g from the logits with biased weights, want more than 1", furthest)
		}
	})
}

// TestTiktokenIsNamed checks that the error for a release whose only tokenizer is tiktoken's file says that it is not
// supported.
func TestTiktokenIsNamed(t *testing.T) {
	dir := hfCopy(t, "13_hf_kimi_linear_a", nil)
	if err := os.WriteFile(filepath.Join(dir, "tiktoken.model"), []byte("IQ== 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, p := openHF(t, dir)
	_, err := LoadTokenizer(dir, &p.config)
	if want := "found no tokenizer.json, which is read, but tiktoken.model, which is not"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}
