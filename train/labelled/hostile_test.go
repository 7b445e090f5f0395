package labelled

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/toytask"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// FuzzLabelledState checks that any trainer.json, and any place.json of format 1, is resumed or returns an error.
func FuzzLabelledState(f *testing.F) {
	c := Default()
	c.Out = filepath.Join(f.TempDir(), "run")
	c.Model.DModel, c.Model.Layers, c.Model.DState = 16, "h3*2", 8
	c.BatchSize, c.Epochs, c.Optim.LR, c.Optim.WarmupEpochs = 20, 1, 1e-2, 0.5
	w, l, err := Open(c, &c, toytask.Made("class"), func([]byte) error { return nil })
	if err != nil {
		f.Fatal(err)
	}
	if err := l.Save(); err != nil {
		f.Fatal(err)
	}
	last := filepath.Join(w.Config.Out, model.LastDir)
	if err := os.Remove(filepath.Join(last, checkpoint.ManifestFile)); err != nil {
		f.Fatal(err)
	}
	state, place := filepath.Join(last, train.TrainerFile), filepath.Join(last, "place.json")
	for i, name := range []string{state, filepath.Join("..", "testdata", "format1", "task", model.LastDir,
		"place.json")} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, i == 1)
	}
	f.Fuzz(func(t *testing.T, text []byte, old bool) {
		path, other := state, place
		if old {
			path, other = place, state
		}
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(other); err != nil {
			t.Fatal(err)
		}
		_, again, err := Open(w.Config, &w.Config, w.Set, func([]byte) error { return nil })
		if err != nil {
			return
		}
		best, ok := again.BestPoint() // panics if it is not one of the points
		if again.Steps() < 0 || again.Steps() > again.Plan.Steps || ok && len(again.Points()) == 0 {
			t.Errorf("found a place that cannot be: %d, %+v, %+v", again.Steps(), best, again.Points())
		}
	})
}
