package text

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// noted runs a configuration and returns the result and the notes.
func noted(c Config) (Result, []string, error) {
	var notes []string
	res, err := Run(context.Background(), c, train.Events{Note: func(text string) { notes = append(notes, text) }})
	return res, notes, err
}

func wantNote(t *testing.T, notes []string, words string) {
	t.Helper()
	for _, text := range notes {
		if strings.Contains(text, words) {
			return
		}
	}
	t.Errorf("no note says %q: %q", words, notes)
}

// TestOverfittingIsTold checks that a run on a short text reports the best checkpoint first, measured on all validation
// text, and notes overfitting during the run and at the end.
func TestOverfittingIsTold(t *testing.T) {
	for _, evalTokens := range []int{16, 4096} { // a part of the validation text during the run, or all of it
		c := small(t)
		rng := rand.New(rand.NewPCG(1, 2))
		text := make([]byte, 1000)
		for i := range text {
			text[i] = "abcdefgh"[rng.IntN(8)]
		}
		c.Data = []string{filepath.Join(t.TempDir(), "text.txt")}
		if err := os.WriteFile(c.Data[0], text, 0o666); err != nil {
			t.Fatal(err)
		}
		c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
		c.Train.Steps, c.Train.Shards, c.Train.EvalEvery, c.Train.SaveEvery, c.Train.SampleEvery = 600, 1, 30,
			600, 0
		c.Train.EvalTokens, c.Optim.LR, c.Optim.SSMLR = evalTokens, 1e-2, 1e-2
		c.Optim.Schedule, c.Model.DModel = "constant", 32
		res, notes, err := noted(c)
		if err != nil {
			t.Fatal(err)
		}
		if res.BestStep >= c.Train.Steps || res.BestLoss >= res.ValidLoss {
			t.Fatalf("%+v, want a run that overfits", res)
		}
		wantNote(t, notes, ": the model overfits")
		wantNote(t, notes, fmt.Sprintf("lowest, %.4f, at step %d, and is %.4f now", res.BestLoss, res.BestStep,
			res.ValidLoss))
		card, err := os.ReadFile(filepath.Join(c.Out, CardFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			fmt.Sprintf("\n| validation loss | %.4f nats per token (perplexity", res.BestLoss),
			fmt.Sprintf(", at step %d: the best, in `best/` |", res.BestStep),
			fmt.Sprintf("\n| validation loss at the end | %.4f, in `last/` |", res.ValidLoss),
			"Note: the model overfits: ",
		} {
			if !strings.Contains(string(card), want) {
				t.Errorf("the card has no %q", want)
			}
		}
		best, _, err := release.LoadDir(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.OpenData(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		again, err := Evaluate(context.Background(), best, d.Valid, EvalOptions{SeqLen: c.Train.SeqLen,
			BatchSize: c.Train.BatchSize})
		if err != nil || again.Loss != res.BestLoss {
			t.Errorf("the best checkpoint has a loss of %v, %v, the result says %v", again.Loss, err, res.BestLoss)
		}
		cfg, err := ReadRun(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		resumed, err := Resume(context.Background(), cfg, train.Events{})
		if err != nil || resumed.BestLoss != res.BestLoss || resumed.BestStep != res.BestStep ||
			len(resumed.Remarks) != len(res.Remarks) {
			t.Errorf("resumed after its end: %+v, %v, want as before: %+v", resumed, err, res)
		}
	}
}

// TestDivergenceIsTold checks that a far too high learning rate gives a note during the run, and an error at its end
// after all files are written.
func TestDivergenceIsTold(t *testing.T) {
	c := small(t)
	c.Train.Steps, c.Train.SampleEvery, c.Optim.LR = 40, 0, 5
	_, notes, err := noted(c)
	var diverged *train.DivergedError
	if !errors.As(err, &diverged) || diverged.Loss < diverged.Guess+1 {
		t.Fatalf("%v, want a DivergedError", err)
	}
	for _, want := range []string{"want a smaller optim.lr (found 5)", "that of guessing 5.545"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: found no %q", err, want)
		}
	}
	wantNote(t, notes, "the training diverges; a smaller optim.lr (now 5)")
	if _, err := os.Stat(filepath.Join(c.Out, CardFile)); err != nil {
		t.Error(err)
	}
}

// TestWorseThanCountingIsTold checks that a run too short to learn anything gives one remark, and that a run that
// learns gives none.
func TestWorseThanCountingIsTold(t *testing.T) {
	c := small(t)
	_, notes, err := noted(c)
	if err != nil {
		t.Fatal(err)
	}
	wantNote(t, notes, "the model has learnt next to nothing; more steps (train.steps, now 6)")
	c = small(t)
	c.Train.Steps, c.Train.EvalEvery, c.Train.SampleEvery, c.Optim.LR, c.Optim.SSMLR = 100, 1000, 0, 1e-2, 1e-3
	if _, notes, err = noted(c); err != nil || len(notes) > 0 {
		t.Errorf("notes %q, %v, want none", notes, err)
	}
}

// TestUselessModelIsTold checks that a run that ends with a model far worse than guessing fails, even if it started
// from one that was no better and its training loss has fallen.
func TestUselessModelIsTold(t *testing.T) {
	c := small(t)
	mustRun(t, c)
	dir := filepath.Join(c.Out, model.LastDir)
	m, _, err := release.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Params("", func(name string, p *nn.Param) {
		x := make([]float32, p.Len())
		p.CopyTo(x)
		for i := range x {
			x[i] *= 40
		}
		if p.Role == nn.Table {
			p.CopyFrom(x)
		}
	})
	broken := filepath.Join(t.TempDir(), "broken")
	if err := errors.Join(os.Mkdir(broken, 0o777), m.Save(broken), tokenizer.Bytes().Save(broken)); err != nil {
		t.Fatal(err)
	}
	next := small(t)
	next.Train.Steps = 4
	if err := next.StartFrom("broken", broken); err != nil {
		t.Fatal(err)
	}
	next.Optim.LR = 1e-5
	res, _, err := noted(next)
	var useless *UselessError
	if !errors.As(err, &useless) || useless.Best != res.BestLoss || useless.Began < useless.Guess+1 {
		t.Fatalf("%v with a loss of %v, want a UselessError", err, res.BestLoss)
	}
	next.Out += "-2"
	next.Smoke()
	if _, _, err := noted(next); err != nil {
		t.Errorf("a trial: %v", err)
	}
}
