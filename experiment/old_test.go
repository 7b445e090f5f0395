package experiment

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
)

// TestFormat1GoesOn: a run that was interrupted by hippo e86549c, which kept its place in place.json, ends at the
// weights and the score that this version came to.
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
	weights, err := os.ReadFile(filepath.Join(c.Out, model.LastDir, model.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	const want = "bc9e768ba181385e13e47e63f67dea208bd759f5b1b229eb745ad6536308650d"
	if got := fmt.Sprintf("%x", sha256.Sum256(weights)); got != want {
		t.Errorf("found weights of the sum %s, want %s", got, want)
	}
	if res.Test.Loss != 3.1663845062255858 {
		t.Errorf("found the loss %v", res.Test.Loss)
	}
}
