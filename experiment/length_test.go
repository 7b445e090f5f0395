package experiment

import (
	"context"
	"path/filepath"
	"testing"
)

// TestALiBiAtFourTimesTheLength: what attention with ALiBi has learned at one length holds at four times that, where
// the distances were never seen (arXiv:2108.12409). With rotary positions it does not.
func TestALiBiAtFourTimesTheLength(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two networks")
	}
	for model, holds := range map[string]bool{"alibi": true, "rotary": false} {
		s, err := Find("induction(vocab=8,length=8,longer=4,train=1000)", model)
		if err != nil {
			t.Fatal(err)
		}
		c := &s.Config
		c.Out, c.Epochs, c.Optim.LR = filepath.Join(t.TempDir(), "run"), 10, 3e-3
		r, err := Run(context.Background(), s, Events{})
		if err != nil {
			t.Fatal(err)
		}
		score := r.Extra[1].Accuracy
		if tags := r.Extra[1].Tags; r.Test.Accuracy < 95 || (score > 80) != holds || len(tags) != 3 {
			t.Errorf("%s: %.1f %% at the length of training and %.1f at four times that, by distance %v", model,
				r.Test.Accuracy, score, tags)
		}
	}
}
