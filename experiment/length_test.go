package experiment

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
)

// trainedAt8 trains a model to find what is up to 8 symbols back. It returns the result and its folder.
func trainedAt8(t *testing.T, model string, epochs int, lr float64) (*Result, string) {
	t.Helper()
	s, err := Find("induction(vocab=8,length=8,longer=4,train=1000)", model)
	if err != nil {
		t.Fatal(err)
	}
	c := &s.Config
	c.Out, c.Epochs, c.Optim.LR = filepath.Join(t.TempDir(), "run"), epochs, lr
	r, err := Run(context.Background(), s, Events{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Test.Accuracy < 95 || len(r.Extra[1].Tags) != 3 {
		t.Errorf("%s: %.1f %% at the length of training, %v at four times that", model, r.Test.Accuracy,
			r.Extra[1].Tags)
	}
	return r, c.Out
}

// TestALiBiAtFourTimesTheLength checks that a task learned by attention with ALiBi at one length still succeeds at four
// times that length, with distances that were never seen (arXiv:2108.12409). With rotary positions it does not.
func TestALiBiAtFourTimesTheLength(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two networks")
	}
	for model, holds := range map[string]bool{"alibi": true, "rotary": false} {
		r, _ := trainedAt8(t, model, 10, 3e-3)
		if at := r.Extra[1]; (at.Accuracy > 80) != holds {
			t.Errorf("%s: %.1f %% at four times the length, by distance %v", model, at.Accuracy, at.Tags)
		}
	}
}

// TestGSSAtFourTimesTheLength checks that GSS with systems as wide as the model finds, in longer sequences too, what is
// as far back as in training; a quarter as many systems do not. It does not find what is further back, and its kernels
// show why: training shrinks their taps beyond the length of training.
func TestGSSAtFourTimesTheLength(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two networks")
	}
	r, dir := trainedAt8(t, "gss-wide", 30, 2e-3)
	if tags := r.Extra[1].Tags; tags[0].Accuracy < 95 || tags[1].Accuracy > 60 || tags[2].Accuracy > 50 {
		t.Errorf("at four times the length, by distance: %v", tags)
	}
	trained, err := model.NetworkOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	start, err := model.NewNetwork(trained.Config)
	if err != nil {
		t.Fatal(err)
	}
	start.Init(r.Seed)
	if now, before := beyond(trained), beyond(start); now > 0.9*before {
		t.Errorf("taps beyond the length of training have %.2f of the size of those within, before training %.2f",
			now, before)
	}
}

// beyond returns the root mean square of taps 9 to 16 of the last kernels, relative to that of taps 3 to 8.
func beyond(m *model.Network) float64 {
	tape := m.NewTape()
	k := mixer.Responses(tape, m.Blocks[len(m.Blocks)-1].Mixer, 17)[0].Taps
	x, d := k.Floats(), k.Dim(-1)
	size := func(from, to int) float64 {
		sum := 0.0
		for _, v := range x[from*d : (to+1)*d] {
			sum += float64(v) * float64(v)
		}
		return math.Sqrt(sum / float64((to+1-from)*d))
	}
	return size(9, 16) / size(3, 8)
}
