package release

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
)

var precisions = []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4, engine.Int4Min}

// someIDs is a short text.
var someIDs = []int32{3, 1, 4, 1, 5, 9, 2, 6}

// loadPacked fills a model from a file, packed at a precision.
func loadPacked(t *testing.T, m *model.Model, f *checkpoint.File, p engine.Precision) error {
	t.Helper()
	w, err := Weights(f)
	if err != nil {
		t.Fatal(err)
	}
	return m.LoadPacked(w, p)
}

// TestLoadPackedIsLoadAndPack checks that packing weights during loading or afterwards gives the same weights, to the
// last bit, from a file of each type. Matrices are large enough to be read in pieces.
func TestLoadPackedIsLoadAndPack(t *testing.T) {
	cfg := model.DefaultConfig()
	cfg.DModel, cfg.VocabSize, cfg.Layers, cfg.NumHeads = 96, 6001, "h3,attention,mamba", 2
	fresh := func() *model.Model {
		m, err := model.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	other := fresh()
	other.Init(5)
	for _, stored := range []checkpoint.DType{checkpoint.F32, checkpoint.BF16, checkpoint.F16} {
		tensors := tensorsOf(other)
		for name, x := range tensors {
			values, err := x.Float32()
			if err != nil {
				t.Fatal(err)
			}
			if tensors[name], err = checkpoint.ConvertTensor(name, stored, x.Shape, values); err != nil {
				t.Fatal(err)
			}
		}
		f := file(t, tensors)
		for _, p := range precisions {
			plain, packed := fresh(), fresh()
			if err := Load(plain, f); err != nil {
				t.Fatal(err)
			}
			if err := plain.Pack(p); err != nil {
				t.Fatal(err)
			}
			if err := loadPacked(t, packed, f, p); err != nil {
				t.Fatal(err)
			}
			if got, want := logitsOf(packed, someIDs, 1), logitsOf(plain, someIDs, 1); !slices.Equal(got, want) {
				t.Errorf("from %s to %s: the logits are others than those of loading and packing", stored, p)
			}
			if got, want := packed.Bytes(), plain.Bytes(); got != want {
				t.Errorf("from %s to %s: found %d bytes of weights, want %d", stored, p, got, want)
			}
		}
	}
}

// TestLoadPackedErrors checks that loading into packed weights reports the same problems as Load, including the first
// non-finite value of a matrix, and then changes nothing.
func TestLoadPackedErrors(t *testing.T) {
	const (
		matrix = "backbone.layers.0.mixer.q_proj.weight"
		norm   = "backbone.layers.0.norm1.weight"
	)
	for _, p := range precisions {
		m, other := small(t, "h3"), small(t, "h3")
		tensors := tensorsOf(other)
		for name, at := range map[string][]int{matrix: {200, 77}, norm: {3}} {
			values := read(parameter(t, other, name))
			for _, i := range at {
				values[i] = float32(math.Inf(-1))
			}
			tensors[name] = checkpoint.NewTensor(name, tensors[name].Shape, values)
		}
		before := contents(m)
		err := loadPacked(t, m, file(t, tensors), p)
		for _, want := range []string{"2 problems", matrix + ": found -Inf at element 77 of 256",
			norm + ": found -Inf at element 3 of 16"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in the error: %v", p, want, err)
			}
		}
		delete(tensors, norm)
		tensors["backbone.surprise"] = checkpoint.NewTensor("backbone.surprise", []int{1}, []float32{1})
		err = loadPacked(t, m, file(t, tensors), p)
		for _, want := range []string{"3 problems", matrix + ": found -Inf at element 77 of 256",
			norm + ": missing, want shape [16]", "backbone.surprise: unexpected"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in the error: %v", p, want, err)
			}
		}
		if contents(m) != before {
			t.Errorf("%s: a file that does not fit changed the model", p)
		}
	}
}

// TestLoadDirPacked checks that a folder gives a packed model.
func TestLoadDirPacked(t *testing.T) {
	dir := t.TempDir()
	want := small(t, "h3,attention")
	if err := want.Save(dir); err != nil {
		t.Fatal(err)
	}
	m, _, err := LoadDirPacked(dir, engine.BF16)
	if err != nil {
		t.Fatal(err)
	}
	if err := want.Pack(engine.BF16); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(logitsOf(m, someIDs, 1), logitsOf(want, someIDs, 1)) {
		t.Error("the logits are others than those of the model that was saved")
	}
	if err := m.Save(dir); err == nil {
		t.Error("a packed model was saved")
	}
}
