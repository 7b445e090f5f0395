package release

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// contents returns a model's configuration and the bytes of its weights.
func contents(m *model.Model) string {
	var b bytes.Buffer
	b.Write(m.Config.JSON())
	for _, x := range m.Tensors() {
		b.WriteString(x.Name)
		b.Write(x.Data)
	}
	return b.String()
}

// TestSaveAndLoad checks that LoadDir reads the output of Save, bit for bit.
func TestSaveAndLoad(t *testing.T) {
	m := small(t, every())
	m.Embedding.Weight.Data()[3] = math.Float32frombits(1) // a denormal number must be preserved
	m.Embedding.Weight.Data()[4] = float32(math.Copysign(0, -1))
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, from, err := LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if contents(got) != contents(m) || from != dir {
		t.Errorf("what was loaded from %s differs from what was saved in %s", from, dir)
	}
	if err := m.Save(filepath.Join(dir, "nowhere")); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("saved in a folder that is not there: %v", err)
	}
}

// TestSaveAndLoadWithoutMLP checks that blocks of only a mixer have the names of Mamba for any mixer.
func TestSaveAndLoadWithoutMLP(t *testing.T) {
	c := small(t, every()).Config
	c.MLP = model.MLPNone
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	if got, _, err := LoadDir(dir); err != nil || contents(got) != contents(m) {
		t.Errorf("what was loaded differs from what was saved: %v", err)
	}
}

// TestLoadRunFolder checks that the best checkpoint of a run's folder is loaded, or else the last.
func TestLoadRunFolder(t *testing.T) {
	run := t.TempDir()
	for _, sub := range []string{model.LastDir, model.BestDir} {
		dir := filepath.Join(run, sub)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m := small(t, "h3")
		m.LnF.(*nn.LayerNorm).Bias.Data()[0] = float32(len(sub + dir))
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		got, from, err := LoadDir(run)
		if err != nil || from != dir || contents(got) != contents(m) {
			t.Errorf("with %s written last: loaded %s, %v", sub, from, err)
		}
	}
}

func TestResolveErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "model.pt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "missing"): "missing",
		file:                          "found a file",
		dir:                           "found no config.json",
	} {
		if _, _, err := LoadDir(path); err == nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
	m := small(t, "h3")
	if err := os.WriteFile(filepath.Join(dir, model.ConfigFile), m.Config.JSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadDir(dir); err == nil || !strings.Contains(err.Error(), model.WeightsFile) {
		t.Errorf("without weights: error %v", err)
	}
}

// file writes tensors as safetensors and opens them.
func file(t *testing.T, tensors map[string]checkpoint.Tensor) *checkpoint.File {
	t.Helper()
	var list []checkpoint.Tensor
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		list = append(list, tensors[name])
	}
	var b bytes.Buffer
	if err := checkpoint.WriteSafetensors(&b, list, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), model.WeightsFile)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.OpenSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func tensorsOf(m *model.Model) map[string]checkpoint.Tensor {
	out := map[string]checkpoint.Tensor{}
	m.Params("", func(name string, p *nn.Param) {
		out[name] = checkpoint.NewTensor(name, p.Shape(), read(p.Tensor))
	})
	return out
}

// TestLoadErrors checks that one error lists everything that does not fit, and that the model does not change.
func TestLoadErrors(t *testing.T) {
	m, other := small(t, every()), small(t, every())
	other.Init(99)
	tensors := tensorsOf(other)
	const (
		missing   = "backbone.ln_f.bias"
		misshapen = "backbone.layers.0.norm1.weight"
		infinite  = "backbone.layers.1.mlp.fc1.weight"
	)
	delete(tensors, missing)
	tensors[misshapen] = checkpoint.NewTensor(misshapen, []int{2, 3}, make([]float32, 6))
	fc1 := mixer.PartOf(other.Blocks[1].MLP).(*nn.MLP).FC1.Weight
	bad := read(fc1.Tensor)
	bad[7] = float32(math.NaN())
	tensors[infinite] = checkpoint.NewTensor(infinite, fc1.Shape(), bad)
	tensors["backbone.surprise"] = checkpoint.NewTensor("backbone.surprise", []int{1}, []float32{1})
	table := other.Embedding.Weight
	tensors[headName] = checkpoint.NewTensor(headName, table.Shape(), make([]float32, table.Len()))

	before := contents(m)
	f := file(t, tensors)
	err := Load(m, f)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		f.Path(), "5 problems",
		missing + ": missing, want shape [16]",
		misshapen + ": found shape [2 3], want [16]",
		infinite + ": found NaN at element 7",
		"backbone.surprise: unexpected",
		headName + ": differs from " + h3Table,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error:\n%v", want, err)
		}
	}
	if contents(m) != before {
		t.Error("a file that does not fit changed the model")
	}
}

// TestLoadHead checks that the head's weights must equal the embedding's, and may replace them. Rotary frequencies in a
// file are ignored, because they are computed.
func TestLoadHead(t *testing.T) {
	other := small(t, every())
	other.Init(99)
	table := read(other.Embedding.Weight.Tensor)
	for what, change := range map[string]func(map[string]checkpoint.Tensor){
		"both": func(x map[string]checkpoint.Tensor) {},
		"only the head": func(x map[string]checkpoint.Tensor) {
			delete(x, h3Table)
		},
		"rotary frequencies": func(x map[string]checkpoint.Tensor) {
			name := "backbone.layers.0.mixer.rotary_emb.inv_freq"
			x[name] = checkpoint.NewTensor(name, []int{2}, []float32{1, 2})
		},
	} {
		tensors := tensorsOf(other)
		tensors[headName] = checkpoint.NewTensor(headName, other.Embedding.Weight.Shape(), table)
		change(tensors)
		m := small(t, every())
		if err := Load(m, file(t, tensors)); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if contents(m) != contents(other) {
			t.Errorf("%s: other weights were loaded", what)
		}
	}
}

// TestLoadUnpacks checks that values loaded into a packed model replace the packed ones.
func TestLoadUnpacks(t *testing.T) {
	dir := t.TempDir()
	m := small(t, every())
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.Pack(engine.BF16); err != nil {
		t.Fatal(err)
	}
	want, _, err := LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.OpenSafetensors(filepath.Join(dir, model.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Load(m, f); err != nil {
		t.Fatal(err)
	}
	if contents(m) != contents(want) {
		t.Error("the values loaded are others than those saved")
	}
}
