package release

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// storedAs returns a copy of a golden model's folder. kind returns the type of each tensor's elements.
func storedAs(t *testing.T, from string, kind func(name string, at int) checkpoint.DType) string {
	t.Helper()
	dir := t.TempDir()
	config, err := os.ReadFile(filepath.Join(from, model.ConfigFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, model.ConfigFile), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenWeights(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []checkpoint.Tensor
	for i, name := range f.Names() {
		x, _ := f.Tensor(name)
		values, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		y, err := checkpoint.ConvertTensor(name, kind(name, i), x.Shape, values)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, y)
	}
	if err := disk.WriteFile(filepath.Join(dir, model.WeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, nil)
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// steppedLogits returns the logits after a prefix and then after each further id.
func steppedLogits(m *model.Model, ids []int32, prefix int) (out []float32) {
	state, tape := m.NewState(), autograd.NewTape(cpu.Backend{})
	for lo, hi := 0, prefix; lo < len(ids); lo, hi = hi, hi+1 {
		tape.Reset()
		rows := model.OneRow(hi-lo, state)
		out = append(out, read(m.LastLogits(tape, m.Forward(tape, ids[lo:hi], rows), rows))...)
	}
	return out
}

// TestStoredIsFloat32 checks that weights that stay in bfloat16 give the same bits as the same weights in float32, for
// every family, for whole sequences and step by step, including keys and values. It also checks files of float16 and of
// several types.
func TestStoredIsFloat32(t *testing.T) {
	kinds := map[string]func(string, int) checkpoint.DType{
		"bfloat16": func(string, int) checkpoint.DType { return checkpoint.BF16 },
		"float16":  func(string, int) checkpoint.DType { return checkpoint.F16 },
		"several": func(_ string, at int) checkpoint.DType {
			return []checkpoint.DType{checkpoint.BF16, checkpoint.F32}[at%2]
		},
	}
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		ids := ids32(c.I64("in/ids"))[:24]
		for what, kind := range kinds {
			dir := storedAs(t, hfFolder(c), kind)
			plain, _, err := LoadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			packed, _, err := LoadDirPacked(dir, engine.Float32)
			if err != nil {
				t.Fatal(err)
			}
			stored, _, err := LoadDirStored(dir)
			if err != nil {
				t.Fatal(err)
			}
			for how, logits := range map[string]func(*model.Model) []float32{
				"whole":   func(m *model.Model) []float32 { return logitsOf(m, ids, 2) },
				"stepped": func(m *model.Model) []float32 { return steppedLogits(m, ids, 9) },
			} {
				want := logits(packed)
				if !slices.Equal(logits(plain), want) || !slices.Equal(logits(stored), want) {
					t.Errorf("%s, %s: the logits are others than those of float32", what, how)
				}
			}
			var half, all int
			stored.Params("", func(_ string, p *nn.Param) {
				all += p.Bytes()
				if p.Packed() != nil && p.Bytes() < 3*p.Len() {
					half++
				}
			})
			if what == "bfloat16" && all >= packed.Bytes() || (what == "float16") != (half == 0) {
				t.Errorf("%s: weights of %d bytes, %d of them in bfloat16, of %d in float32", what, all, half,
					packed.Bytes())
			}
		}
	})
}

// TestStoredErrors checks that problems are listed as without this option, and that a model loaded in this way cannot
// be saved.
func TestStoredErrors(t *testing.T) {
	dir := storedAs(t, filepath.Join(golden.Dir(t), "13_hf_lfm2_a"),
		func(string, int) checkpoint.DType { return checkpoint.BF16 })
	m, _, err := LoadDirStored(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Save(t.TempDir()); err == nil {
		t.Error("it was saved")
	}
	path := filepath.Join(dir, model.ConfigFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), `"vocab_size": 101`, `"vocab_size": 103`, 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = LoadDirStored(dir)
	if want := "found shape [101 32], want [103 32]"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}
