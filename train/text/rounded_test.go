package text

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// TestLossOfRoundedWeights checks that a model that learned from the pages in testdata/pages predicts another page
// nearly as well with rounded weights: within 0.1 % of the loss in bf16 and int8, within 1 % in int4. The pages are old
// copies of docs/decisions and docs/glossary.md, so that the numbers do not change when those are edited.
func TestLossOfRoundedWeights(t *testing.T) {
	c := small(t)
	c.Model = model.DefaultConfig()
	c.Model.VocabSize, c.Model.DModel, c.Model.Layers, c.Model.NumHeads = 0, 128, "mamba,attention,mamba", 4
	c.Train.Steps, c.Train.BatchSize, c.Train.SeqLen, c.Train.Shards = 200, 4, 96, 1
	c.Train.EvalEvery, c.Train.SampleEvery, c.Train.SaveEvery = 200, 0, 200
	c.Optim.LR, c.Optim.Warmup = 0.004, 20
	pages, err := filepath.Glob("testdata/pages/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("found %d pages: %v", len(pages), err)
	}
	c.Data = pages
	mustRun(t, c)
	text, err := os.ReadFile("testdata/unseen/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int32, len(text))
	for i, b := range text {
		ids[i] = int32(b)
	}
	tokens, err := data.FromIDs(ids, 256)
	if err != nil {
		t.Fatal(err)
	}
	loss := func(p engine.Precision) float64 {
		m, _, err := release.LoadDirPacked(filepath.Join(c.Out, model.LastDir), p)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Evaluate(context.Background(), m, tokens, EvalOptions{SeqLen: 128, BatchSize: 8})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.5f", p, r.Loss)
		return r.Loss
	}
	want := loss(engine.Float32)
	if want > 3 {
		t.Errorf("a loss of %.3f: it has not learned much", want)
	}
	for p, tol := range map[engine.Precision]float64{engine.BF16: 0.001, engine.Int8: 0.001, engine.Int4: 0.01,
		engine.Int4Min: 0.01} {
		if got := loss(p); got > want*(1+tol) || got < want*(1-tol) || got == want {
			t.Errorf("%s: a loss of %.5f, want %.5f within %v of it, but not the same", p, got, want, tol)
		}
	}
}
