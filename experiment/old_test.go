package experiment

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/hippo-ssm/hippo/task"
)

// TestFormat1GoesOn checks that a run interrupted under hippo e86549c, which kept its state in place.json, resumes and
// reaches the score of that version, up to different dropout masks in the remaining steps.
func TestFormat1GoesOn(t *testing.T) {
	s, err := Find("induction(train=64,test=20,length=8,longer=2)", "h3")
	if err != nil {
		t.Fatal(err)
	}
	c := &s.Config
	c.Epochs, c.BatchSize, c.EvalEvery, c.Model.DModel, c.Model.DState, c.Model.DInner = 4, 16, 0.5, 8, 4, 16
	c.Model.ResidDropout = 0.1
	c.Out = filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(c.Out, os.DirFS(filepath.Join("..", "train", "testdata", "format1", "task"))); err != nil {
		t.Fatal(err)
	}
	started := -1
	res, err := Run(context.Background(), s, Events{Start: func(_ *Result, _ *task.Set, step int) { started = step }})
	if err != nil || started != 5 || res.Steps != 16 || len(res.Curve) != 8 {
		t.Fatalf("from step %d: %+v, %v", started, res, err)
	}
	const want = 3.16638
	if math.Abs(res.Test.Loss-want) > 1e-3 {
		t.Errorf("found the loss %v, want %v", res.Test.Loss, want)
	}
}
