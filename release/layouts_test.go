package release

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// official reads a checkpoint of H3 and returns its tensors by their official names.
func official(t *testing.T, path string) (*checkpoint.File, map[string]*checkpoint.Tensor) {
	t.Helper()
	f, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	names, err := h3Names(f.Names())
	if err != nil {
		t.Fatal(err)
	}
	tensors := map[string]*checkpoint.Tensor{}
	for official, name := range names {
		tensors[official], _ = f.Tensor(name)
	}
	return f, tensors
}

// TestLayoutsHoldTheSameBytes reads the layouts of the official releases, next to model.pt in the folder of each case,
// and compares all bytes. Those in testdata/golden are older names, Lightning and the format before zip archives.
func TestLayoutsHoldTheSameBytes(t *testing.T) {
	compared := 0
	golden.Run(t, "05_h3_lm", func(t *testing.T, c golden.Case) {
		_, want := official(t, c.File(c.Weights()[0]))
		paths, err := filepath.Glob(filepath.Join(filepath.Dir(c.File(c.Weights()[0])), "model_*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			f, got := official(t, path)
			format, root := checkpoint.FormatTorchZip, ""
			switch filepath.Base(path) {
			case "model_old_format.pt":
				format = checkpoint.FormatTorchLegacy
			case "model_lightning.ckpt":
				root = "state_dict"
			}
			isLightning := f.Metadata()["pytorch-lightning_version"] != ""
			if f.Format() != format || f.Root() != root || isLightning != (root != "") {
				t.Errorf("%s: format %q, root %q, metadata %q, want %q, %q", path, f.Format(),
					f.Root(), f.Metadata(), format, root)
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d tensors, want %d", path, len(got), len(want))
			}
			for name, w := range want {
				g := got[name]
				if g == nil || g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) || !bytes.Equal(g.Data, w.Data) {
					t.Errorf("%s: %s differs or is missing", path, name)
				}
			}
			compared++
		}
	})
	if compared == 0 {
		t.Error("no layout beside model.pt to compare with it")
	}
}

// TestGradientsAreOfTheParameters checks that every gradient of a golden case belongs to a parameter of its checkpoint
// and has its shape.
func TestGradientsAreOfTheParameters(t *testing.T) {
	golden.Run(t, "05_h3_lm", func(t *testing.T, c golden.Case) {
		_, params := official(t, c.File(c.Weights()[0]))
		for _, name := range c.Names() {
			param, ok := strings.CutPrefix(name, "grad/")
			if !ok {
				continue
			}
			if p := params[param]; p == nil || !slices.Equal(p.Shape, c.Shape(name)) {
				t.Errorf("%s: the checkpoint has %v", name, p)
			}
		}
		word, head := params["backbone.embeddings.word_embeddings.weight"], params["lm_head.weight"]
		if word == nil || head == nil || &word.Data[0] != &head.Data[0] {
			t.Error("the tied embedding and head do not share memory")
		}
	})
}
