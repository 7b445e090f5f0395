package release

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// TestWritePEFT checks that an adapter of a model of every family, read and written, has the same names and shapes as
// before, and gives the same model.
func TestWritePEFT(t *testing.T) {
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		folder := hfFolder(c)
		modules := modulesOf(t, folder)
		attached := func(dir string) (*model.Model, *Adapter) {
			m, _, err := LoadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			a, err := ReadAdapter(dir)
			if err == nil {
				err = a.Attach(m, folder, "")
			}
			if err != nil {
				t.Fatal(err)
			}
			return m, a
		}
		m, a := attached(newPEFT(2, modules).write(t))
		out := t.TempDir()
		if err := WritePEFT(out, m, a, folder); err != nil {
			t.Fatal(err)
		}
		f, err := checkpoint.OpenSafetensors(filepath.Join(out, AdapterWeightsFile))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for module, size := range modules {
			x, okA := f.Tensor(peftPrefix + module + ".lora_A.weight")
			y, okB := f.Tensor(peftPrefix + module + ".lora_B.weight")
			if !okA || !okB || x.Shape[1] != size[1] || y.Shape[0] != size[0] || x.Shape[0] != y.Shape[1] {
				t.Fatalf("%s: found %v and %v, want changes of a matrix %v", module, x, y, size)
			}
		}
		again, _ := attached(out)
		if d := furthest(t, hybridLogits(again), hybridLogits(m)); d > 1e-4 {
			t.Errorf("other logits, by %g", d)
		}
		base, _, err := LoadDir(folder)
		if err != nil || slices.Equal(hybridLogits(base), hybridLogits(m)) {
			t.Errorf("the adapter changes nothing, %v", err)
		}
	})
}
