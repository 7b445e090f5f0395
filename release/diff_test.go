package release

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// TestCompare checks that every kind of difference between two files of weights is reported with its name and place.
func TestCompare(t *testing.T) {
	m := small(t, "h3,attention")
	a, b := tensorsOf(m), tensorsOf(m)
	values := func(name string, change func(x []float32)) {
		x, err := func() ([]float32, error) { y := b[name]; return y.Float32() }()
		if err != nil {
			t.Fatal(err)
		}
		change(x)
		b[name] = checkpoint.NewTensor(name, b[name].Shape, x)
	}
	const (
		moved    = "backbone.layers.1.mlp.fc1.weight"
		nan      = "backbone.layers.0.norm1.weight"
		reshaped = "backbone.layers.0.norm1.bias"
		retyped  = "backbone.layers.1.norm2.bias"
		gone     = "backbone.ln_f.bias"
		signed   = "backbone.layers.1.norm1.bias" // initially zero
	)
	large := 0.0
	values(moved, func(x []float32) {
		for _, v := range x {
			large = max(large, math.Abs(float64(v)))
		}
		x[3] += 0.5
		x[100] -= 0.25
	})
	values(nan, func(x []float32) { x[2] = float32(math.NaN()) })
	values(signed, func(x []float32) { x[0] = float32(math.Copysign(0, -1)) })
	y := b[reshaped]
	b[reshaped] = checkpoint.NewTensor(reshaped, []int{4, 4}, make([]float32, 16))
	zero := make([]float64, len(y.Data)/4)
	b[retyped] = checkpoint.NewTensor(retyped, b[retyped].Shape, zero)
	delete(b, gone)
	b["backbone.more"] = checkpoint.NewTensor("backbone.more", []int{1}, []float32{1})

	fileA, fileB := file(t, a), file(t, b)
	d, err := compareSides(sideOfFile(fileA), sideOfFile(fileB))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.OnlyA, []string{gone}) || !slices.Equal(d.OnlyB, []string{"backbone.more"}) {
		t.Errorf("only in A %q, only in B %q", d.OnlyA, d.OnlyB)
	}
	var names []string
	by := map[string]TensorDiff{}
	for _, x := range d.Other {
		names = append(names, x.Name)
		by[x.Name] = x
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{reshaped, nan, moved, retyped}) || d.Same != len(a)-5 {
		t.Errorf("%q differ, %d are the same", names, d.Same)
	}
	if x := by[moved]; x.Count != 2 || math.Abs(x.Max-0.5) > 1e-6 || x.At != 3 || x.Layer != "backbone.layers.1" ||
		math.Abs(x.Relative-0.5/large) > 1e-6 || float64(x.B-x.A) != x.Max {
		t.Errorf("%+v, largest magnitude %g", x, large)
	}
	if x := by[nan]; x.Max != NotFinite || x.Relative != NotFinite || x.At != 2 || x.Count != 1 {
		t.Errorf("%+v", x)
	}
	if x := by[reshaped]; x.SameShape() || x.Count != 0 || !slices.Equal(x.ShapeA, []int{16}) {
		t.Errorf("%+v", x)
	}
	if x := by[retyped]; x.TypeA != checkpoint.F32 || x.TypeB != checkpoint.F64 || x.Count != 0 || x.Max != 0 {
		t.Errorf("%+v", x)
	}
	if d.Equal() || d.Other[d.Largest].Name != nan {
		t.Errorf("equal %v, the largest in %d", d.Equal(), d.Largest)
	}
	text, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(text), `"b":"NaN"`) {
		t.Errorf("%s: %v", text, err)
	}
	same, err := compareSides(sideOfFile(fileA), sideOfFile(fileA))
	if err != nil || !same.Equal() || same.Same != len(a) || same.Largest != -1 {
		t.Errorf("a file and itself: %+v, %v", same, err)
	}
}

// TestCompareLayouts checks that a published file and the folder converted from it have the same weights, under
// official names. It also compares with a folder of weights only.
func TestCompareLayouts(t *testing.T) {
	golden := filepath.Join("..", "testdata", "golden", "05_h3_lm_a")
	f, err := checkpoint.Open(filepath.Join(golden, "model_legacy_names.pt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, _, err := FromCheckpoint(f, ShapeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 { // with and without a configuration
		d, a, b, err := Compare(filepath.Join(golden, "model_legacy_names.pt"), dir)
		if err != nil || len(d.Other) > 0 || len(d.OnlyB) > 0 || d.Same != len(m.Tensors()) {
			t.Errorf("%+v: %v", d, err)
		}
		if !strings.HasSuffix(a, ".pt") || b != filepath.Join(dir, model.WeightsFile) {
			t.Errorf("compared %s and %s", a, b)
		}
		if err := os.RemoveAll(filepath.Join(dir, model.ConfigFile)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, err := Compare(dir, filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a folder that is not there: %v", err)
	}
}
