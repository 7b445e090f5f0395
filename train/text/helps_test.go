package text

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/train"
)

// TestPatience checks that a run, also if interrupted and resumed, ends after the given number of measurements that are
// no better, with the best model and a last measurement on all text.
func TestPatience(t *testing.T) {
	c := small(t)
	c.Train.SampleEvery = 0
	c.Train.Steps, c.Train.EvalEvery, c.Train.Patience, c.Train.EvalTokens = 400, 2, 3, 1<<20
	c.Optim.LR, c.Optim.SSMLR, c.Optim.Schedule = 8e-2, 0, "constant"
	res, notes, err := noted(c)
	if err != nil {
		t.Fatal(err)
	}
	if res.Step >= 400 || res.Step != res.BestStep+2*3 {
		t.Fatalf("the run ended at step %d, its best is of step %d", res.Step, res.BestStep)
	}
	wantNote(t, notes, "no better than at step")
	saved, err := ReadRun(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Resume(context.Background(), saved, train.Events{})
	if err != nil || again.Step != res.Step || again.ValidLoss != res.ValidLoss || again.BestLoss != res.BestLoss {
		t.Errorf("resumed, it ends at step %d with %v, %v, %v; want %d with %v, %v", again.Step, again.ValidLoss,
			again.BestLoss, err, res.Step, res.ValidLoss, res.BestLoss)
	}
	m, _, err := release.LoadDir(filepath.Join(c.Out, model.LastDir))
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.OpenData(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	all, err := Evaluate(context.Background(), m, d.Valid, EvalOptions{SeqLen: c.Train.SeqLen, BatchSize: 2})
	if err != nil || all.Loss != res.ValidLoss {
		t.Errorf("the last loss is %v, %v; the run says %v", all.Loss, err, res.ValidLoss)
	}
	saved.Train.Patience, saved.Train.Steps = 0, res.Step+4
	if more, err := Resume(context.Background(), saved, train.Events{}); err != nil || more.Step != res.Step+4 {
		t.Errorf("without patience it goes on to step %d, %v", more.Step, err)
	}
}

// TestAverageOfWeights checks that the average does not affect the training, is measured and kept as the best model,
// and continues when a run is resumed.
func TestAverageOfWeights(t *testing.T) {
	plain := small(t)
	plain.Train.Steps = 8
	mustRun(t, plain)
	config := func() Config {
		c := small(t)
		c.Train.Steps, c.Train.EMA = 8, 0.9
		return c
	}
	whole := config()
	res := mustRun(t, whole)
	if weights(t, whole.Out) != weights(t, plain.Out) {
		t.Error("the average changes the weights that are trained")
	}
	best, _, err := release.LoadDir(whole.Out)
	if err != nil {
		t.Fatal(err)
	}
	d, err := whole.OpenData(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := Evaluate(context.Background(), best, d.Valid, EvalOptions{SeqLen: whole.Train.SeqLen, BatchSize: 2})
	if err != nil || got.Loss != res.BestLoss {
		t.Errorf("the best checkpoint has a loss of %v, %v; the run says %v", got.Loss, err, res.BestLoss)
	}
	c := config()
	runUntil(t, c, 5)
	saved, err := ReadRun(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Resume(context.Background(), saved, train.Events{}); err != nil || again.BestLoss != res.BestLoss {
		t.Errorf("resumed, the best loss is %v, %v; want %v", again.BestLoss, err, res.BestLoss)
	}
	read := func(out string) string {
		b, err := os.ReadFile(filepath.Join(out, model.LastDir, "average.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if read(c.Out) != read(whole.Out) {
		t.Error("the resumed run has another average")
	}
}

// TestSmoke checks that a trial makes two updates, one checkpoint and one sample text, and measures a short text.
func TestSmoke(t *testing.T) {
	c := small(t)
	c.Data = nil
	c.Smoke()
	saved, samples, steps := 0, 0, 0
	res, err := Run(context.Background(), c, train.Events{
		Saved: func(string, int) { saved++ }, Sample: func(int, string) { samples++ },
		Step: func(train.Progress) { steps++ },
	})
	if err != nil || res.Step != 2 || saved != 1 || samples != 1 || steps != 2 {
		t.Errorf("%v: %d updates, %d checkpoints, %d samples", err, steps, saved, samples)
	}
}

// TestFitBatch checks that an update keeps its number of sequences, in the fewest shards that fit.
func TestFitBatch(t *testing.T) {
	c := small(t)
	c.Train.BatchSize, c.Train.Shards = 3, 4
	if _, err := c.FitBatch(256); err != nil || c.Train.BatchSize != 12 || c.Train.Shards != 1 {
		t.Errorf("%d sequences in %d shards, %v; want 12 in one", c.Train.BatchSize, c.Train.Shards, err)
	}
	c.Model.DModel, c.Train.SeqLen, c.Train.Shards = 1024, 8192, 100
	if _, err := c.FitBatch(256); err != nil || c.Train.sequences() != 1200 || c.Train.Shards < 2 {
		t.Errorf("%d sequences in %d shards, %v; want 1200 in several", c.Train.BatchSize, c.Train.Shards, err)
	}
}

// TestFindLR checks that the range test finds a falling loss, ends when it explodes, and writes no files.
func TestFindLR(t *testing.T) {
	c := small(t)
	r, err := c.FindLR(context.Background(), 60, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, last := r.Points[0], r.Points[len(r.Points)-1]
	if math.Abs(first.LR-1e-6) > 1e-12 || r.Best.LR < 1e-4 || math.Abs(r.Suggested-r.Best.LR/10) > 1e-12 ||
		r.Best.Smoothed > first.Smoothed-0.3 {
		t.Errorf("from %+v to %+v, the best %+v, suggested %v", first, last, r.Best, r.Suggested)
	}
	for i, p := range r.Points[1:] {
		if want := math.Pow(1e6, 1./59); math.Abs(p.LR/r.Points[i].LR-want) > 1e-9 {
			t.Fatalf("the rate grows by %v, want %v", p.LR/r.Points[i].LR, want)
		}
	}
	if disk.Exists(c.Out) {
		t.Error("it wrote a run")
	}
	if _, err := c.FindLR(context.Background(), 3, nil); err == nil {
		t.Error("three updates are taken")
	}
}
