package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// peft is an adapter for tests, in the format of the PEFT library: its tensors and its configuration.
type peft struct {
	tensors []checkpoint.Tensor
	config  map[string]any
	meta    map[string]string
}

// write writes the adapter into a new folder.
func (p *peft) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(p.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, AdapterConfigFile), text, 0o666); err != nil {
		t.Fatal(err)
	}
	err = disk.WriteFile(filepath.Join(dir, AdapterWeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, p.tensors, p.meta)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// newPEFT returns an adapter of rank r, with random values, for modules of shape (n, k).
func newPEFT(r int, modules map[string][2]int) *peft {
	p := &peft{config: map[string]any{
		"peft_type": "LORA", "r": r, "lora_alpha": 3 * r, "bias": "none", "base_model_name_or_path": "org/name",
		"target_modules": sortedKeys(modules), "megatron_core": "megatron.core", "loftq_config": map[string]any{},
	}}
	rng := rand.New(rand.NewPCG(uint64(r), 9))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * 0.1)
		}
		return x
	}
	for _, module := range sortedKeys(modules) {
		n, k := modules[module][0], modules[module][1]
		p.tensors = append(p.tensors,
			checkpoint.NewTensor(peftPrefix+module+".lora_A.weight", []int{r, k}, random(r*k)),
			checkpoint.NewTensor(peftPrefix+module+".lora_B.weight", []int{n, r}, random(n*r)))
	}
	return p
}

// modulesOf returns the matrices of products in the files of a model, by module name.
func modulesOf(t testing.TB, dir string) map[string][2]int {
	t.Helper()
	modules := map[string][2]int{}
	_, _, err := withModel(dir, func(m *model.Model, w model.Weights) error {
		for _, p := range m.Products() {
			for _, s := range sourcesOf(w, p.Name) {
				x, ok := w.File.Tensor(w.Keys[s.Name])
				if ok && s.Stack == 0 {
					modules[strings.TrimSuffix(w.Keys[s.Name], ".weight")] = [2]int{x.Shape[0], x.Shape[1]}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

// merged copies a model's folder and adds the changes of an adapter, times scale, to the tensors of its files.
func merged(t testing.TB, dir string, p *peft, scale func(module string) float64) string {
	t.Helper()
	f, err := OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	family, err := readConfig(filepath.Join(dir, model.ConfigFile), 0)
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]*checkpoint.Tensor{}
	for i := range p.tensors {
		changes[strings.TrimPrefix(p.tensors[i].Name, peftPrefix)] = &p.tensors[i]
	}
	var tensors []checkpoint.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		values, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		module := strings.TrimSuffix(name, ".weight")
		if down, ok := changes[module+".lora_A.weight"]; ok {
			up := changes[module+".lora_B.weight"]
			a, errA := down.Float64()
			b, errB := up.Float64()
			if err := errors.Join(errA, errB); err != nil {
				t.Fatal(err)
			}
			r, k := down.Shape[0], down.Shape[1]
			for i := range values {
				row, column := i/k, i%k
				if hasSuffix(name, family.names.turned) {
					row, column = i%x.Shape[1], i/x.Shape[1]
				}
				for l := range r {
					values[i] += float32(scale(module) * b[row*r+l] * a[l*k+column])
				}
			}
		}
		tensors = append(tensors, checkpoint.NewTensor(name, x.Shape, values))
	}
	out := t.TempDir()
	config, err := os.ReadFile(filepath.Join(dir, model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, model.ConfigFile), config, 0o666); err != nil {
		t.Fatal(err)
	}
	err = disk.WriteFile(filepath.Join(out, model.WeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// afterText returns the logits of a model on a text.
func afterText(m *model.Model) []float32 {
	ids := make([]int32, 24)
	for i := range ids {
		ids[i] = int32(i * 7 % m.Config.VocabSize)
	}
	tape := autograd.NewTape(cpu.Backend{})
	y := m.Logits(tape, m.Forward(tape, ids, model.EqualRows(1, len(ids))))
	out := make([]float32, y.Len())
	y.CopyTo(out)
	return out
}

// largest returns the largest difference relative to the largest element.
func largest(a, b []float32) float64 {
	most, worst := 1e-9, 0.0
	for i, v := range b {
		most = max(most, math.Abs(float64(v)))
		worst = max(worst, math.Abs(float64(a[i]-v)))
	}
	return worst / most
}

// TestPEFTOfFamilies checks that an adapter with the tensor names of a published model, as written by PEFT, gives the
// same logits as the model with the changes added to the tensors of its files. This includes several tensors that form
// one matrix in this package, and one tensor that forms several. The fingerprint of the files is that of the weights in
// memory.
func TestPEFTOfFamilies(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("..", "testdata", "golden", "13_hf_*", model.ConfigFile))
	if err != nil || len(dirs) < 10 {
		t.Fatalf("found %d families: %v", len(dirs), err)
	}
	for _, path := range dirs {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			modules := modulesOf(t, dir)
			p := newPEFT(2, modules)
			p.config["alpha_pattern"] = map[string]float64{`layers\.1\..*`: 8}
			if len(modules) < 4 {
				t.Fatalf("found %d modules", len(modules))
			}
			scale := func(module string) float64 {
				if strings.Contains(module, "layers.1.") {
					return 4
				}
				return 3
			}
			m, _, err := LoadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := FileFingerprint(dir)
			if err != nil || sum != m.WeightsFingerprint() {
				t.Errorf("the files have the fingerprint %s, %v, the weights %s", sum, err, m.WeightsFingerprint())
			}
			before := afterText(m)
			a, err := ReadAdapter(p.write(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Attach(m, dir, ""); err != nil {
				t.Fatal(err)
			}
			like, _, err := LoadDir(merged(t, dir, p, scale))
			if err != nil {
				t.Fatal(err)
			}
			got, want := afterText(m), afterText(like)
			if off := largest(got, want); !(off < 1e-4) || largest(got, before) < 1e-3 {
				t.Errorf("off by %.2g; the adapter moves the logits by %.2g", off, largest(got, before))
			}
			if err := m.Merge(); err != nil {
				t.Fatal(err)
			}
			if off := largest(afterText(m), want); !(off < 1e-4) {
				t.Errorf("merged: off by %.2g", off)
			}
		})
	}
}

// TestSaveAdapter checks that a saved adapter is read back bit for bit, under the names of the model's own files, and
// fits no other model.
func TestSaveAdapter(t *testing.T) {
	base := filepath.Join("..", "testdata", "golden", "13_hf_mamba_a")
	load := func(dir string) *model.Model {
		m, _, err := LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := load(base)
	adapter, err := m.Adapt(model.AdapterShape{Rank: 4, Alpha: 2, Targets: []string{"x_proj", "dt_proj"}})
	if err != nil {
		t.Fatal(err)
	}
	adapter.Init(3)
	for _, c := range adapter.Changes {
		x := make([]float32, c.B.Len())
		for i := range x {
			x[i] = float32(math.Sin(float64(i)))
		}
		c.B.CopyFrom(x)
	}
	modules, err := ModuleNames(m, base)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := SaveAdapter(dir, m, Adapter{Name: "org/name", Path: base, Weights: m.WeightsFingerprint(), Rank: 4,
		Alpha: 2}, modules); err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.OpenSafetensors(filepath.Join(dir, AdapterWeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	want := peftPrefix + "backbone.layers.0.mixer.x_proj.lora_A.weight"
	if names := f.Names(); len(names) != 2*len(adapter.Changes) || !slices.Contains(names, want) {
		t.Errorf("the file has %q", names)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := ReadAdapter(dir)
	if err != nil || a.Name != "org/name" || a.Path != base || a.Rank != 4 || a.Alpha != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	again := load(base)
	if err := a.Attach(again, base, ""); err != nil {
		t.Fatal(err)
	}
	if again.Fingerprint() != m.Fingerprint() || !slices.Equal(afterText(again), afterText(m)) {
		t.Error("the adapter that was read back is another")
	}
	rounded, _, err := LoadDirStored(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Attach(rounded, base, ""); err != nil {
		t.Errorf("over packed weights: %v", err)
	}
	other := load(base)
	x := other.Tensors()[5]
	x.Data[1]++
	folder := t.TempDir()
	if err := other.Save(folder); err != nil {
		t.Fatal(err)
	}
	if err := a.Attach(other, folder, ""); !errors.Is(err, ErrBase) || !strings.Contains(err.Error(), "org/name") ||
		other.Adapter() != nil {
		t.Errorf("an adapter of another model: %v", err)
	}
}

// TestHostileAdapters checks that one error reports all problems in the files of an adapter, and that the model does
// not change.
func TestHostileAdapters(t *testing.T) {
	base := filepath.Join("..", "testdata", "golden", "13_hf_mamba_a")
	const module = "backbone.layers.0.mixer.x_proj"
	all := modulesOf(t, base)
	n, k := all[module][0], all[module][1]
	one := map[string][2]int{module: all[module]}
	tensor := func(name string, values float32, shape ...int) checkpoint.Tensor {
		x := make([]float32, shape[0]*shape[1])
		for i := range x {
			x[i] = values
		}
		return checkpoint.NewTensor(peftPrefix+name, shape, x)
	}
	nan := float32(math.NaN())
	for what, c := range map[string]struct {
		change func(p *peft)
		want   []string
	}{
		"a wrong shape": {func(p *peft) { p.tensors[0] = tensor(module+".lora_A.weight", 1, 2, k+1) },
			[]string{fmt.Sprintf("%s.lora_A: found shape [2 %d], want [r %d]", module, k+1, k)}},
		"other ranks": {func(p *peft) { p.tensors[1] = tensor(module+".lora_B.weight", 1, n, 3) },
			[]string{fmt.Sprintf("%s.lora_B: found shape [%d 3], want [%d 2]", module, n, n)}},
		"another rank than is said": {func(p *peft) { p.config["r"] = 4 }, []string{"found rank 2", "want r of"}},
		"a huge rank":               {func(p *peft) { p.config["r"] = 1 << 30 }, []string{"r: found 1073741824"}},
		"no rank":                   {func(p *peft) { p.config["r"] = 0 }, []string{"r: found 0"}},
		"unknown modules": {func(p *peft) {
			p.tensors = append(p.tensors, tensor("layers.0.up.lora_A.weight", 1, 2, 3),
				tensor("layers.0.up.lora_B.weight", 1, 3, 2), tensor("layers.7.up.lora_A.weight", 1, 2, 3),
				tensor("layers.7.up.lora_B.weight", 1, 3, 2))
		}, []string{"2 problems", "layers.0.up: found no such matrix", "layers.7.up: found no such matrix"}},
		"half of a change": {func(p *peft) { p.tensors = p.tensors[:1] }, []string{module, "want both"}},
		"nothing":          {func(p *peft) { p.tensors = nil }, []string{"found no changes"}},
		"NaN": {func(p *peft) { p.tensors[1] = tensor(module+".lora_B.weight", nan, n, 2) },
			[]string{"found NaN at element 0"}},
		"infinity": {func(p *peft) { p.tensors[0] = tensor(module+".lora_A.weight", float32(math.Inf(1)), 2, k) },
			[]string{"+Inf"}},
		"whole numbers": {func(p *peft) {
			p.tensors[0] = checkpoint.NewTensor(peftPrefix+module+".lora_A.weight", []int{2, k}, make([]int64, 2*k))
		}, []string{"I64"}},
		"a change of the embedding": {func(p *peft) {
			p.tensors = append(p.tensors, checkpoint.NewTensor(peftPrefix+"backbone.embeddings.lora_embedding_A",
				[]int{2, 3}, make([]float32, 6)))
		}, []string{"lora_embedding_A", "want changes of linear layers alone"}},
		"another method": {func(p *peft) { p.config["peft_type"] = "IA3" }, []string{`"IA3", want LORA`}},
		"DoRA and biases": {func(p *peft) { p.config["use_dora"], p.config["bias"] = true, "all" },
			[]string{"use_dora", "bias"}},
		"no alpha": {func(p *peft) { p.config["lora_alpha"] = 0 }, []string{"lora_alpha: found 0"}},
		"a broken pattern": {func(p *peft) { p.config["alpha_pattern"] = map[string]float64{"(": 1} },
			[]string{"alpha_pattern"}},
		"other weights": {func(p *peft) { p.meta = map[string]string{metaBaseWeights: "abc"} },
			[]string{"another model", "want abc"}},
	} {
		t.Run(what, func(t *testing.T) {
			m, _, err := LoadDir(base)
			if err != nil {
				t.Fatal(err)
			}
			p := newPEFT(2, one)
			c.change(p)
			a, err := ReadAdapter(p.write(t))
			if err == nil {
				err = a.Attach(m, base, "")
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
			if m.Adapter() != nil {
				t.Error("the model has got the adapter")
			}
		})
	}
	dir := newPEFT(2, one).write(t)
	for name, text := range map[string]string{AdapterConfigFile: "{", AdapterWeightsFile: "no tensors at all"} {
		broken := t.TempDir()
		for _, file := range []string{AdapterConfigFile, AdapterWeightsFile} {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if file == name {
				data = []byte(text)
			}
			if err := os.WriteFile(filepath.Join(broken, file), data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ReadAdapter(broken); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a broken %s: %v", name, err)
		}
	}
	if _, err := ReadAdapter(t.TempDir()); err == nil || !strings.Contains(err.Error(), "found no "+AdapterConfigFile) {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestAdapterDialects checks files of other versions of PEFT: names that contain the name of the adapter, float16,
// rank-stabilized scales.
func TestAdapterDialects(t *testing.T) {
	base := filepath.Join("..", "testdata", "golden", "13_hf_mamba_a")
	p := newPEFT(4, modulesOf(t, base))
	for i := range p.tensors {
		p.tensors[i].Name = strings.Replace(p.tensors[i].Name, ".weight", ".default.weight", 1)
	}
	p.config["use_rslora"] = true
	m, _, err := LoadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	a, err := ReadAdapter(p.write(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Attach(m, base, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.Adapter().Changes {
		if c.Scale != 12/2.0 { // arXiv:2312.03732: alpha/√r
			t.Errorf("%s: scale %g, want 6", c.Name, c.Scale)
		}
	}
}
