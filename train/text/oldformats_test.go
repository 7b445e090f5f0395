package text

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// begun copies into a new folder the checkpoint of a run of hippo e86549c, before there were shards, that was
// interrupted.
func begun(t *testing.T, name string) (out string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(out, os.DirFS(filepath.Join("..", "testdata", "format1", name))); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFormat1GoesOn checks that a language model's run started by an earlier version ends with the same loss as with
// that version, except for rounding errors and the dropout masks of later steps.
func TestFormat1GoesOn(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.txt")
	write(t, text, []byte(strings.Repeat("the quick brown fox jumps over the lazy dog; ", 60)))
	for name, c := range map[string]struct {
		shards int
		loss   float64 // result of the earlier version
	}{
		"carried":     {1, 3.3710140136094786},
		"accumulated": {2, 3.366135820580238},
	} {
		out := begun(t, name)
		cfg, err := ReadRun(out)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Train.Shards != c.shards || cfg.Train.Accumulation != 0 {
			t.Errorf("%s: found %d shards, accumulation %d, want %d and 0", name, cfg.Train.Shards,
				cfg.Train.Accumulation, c.shards)
		}
		cfg.Data = []string{text}
		res, err := Resume(context.Background(), cfg, train.Events{})
		if err != nil || res.Step != 6 {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		if len(res.Prompt) == 0 || res.BestStep == 0 {
			t.Errorf("%s: %+v, want a prompt and a best step", name, res)
		}
		if math.Abs(res.ValidLoss-c.loss) > 2e-3 {
			t.Errorf("%s: found a loss of %v, want %v", name, res.ValidLoss, c.loss)
		}
	}
}

// TestFormat1IsRefused checks that the error for a run that cannot continue names its version, also for a later
// version.
func TestFormat1IsRefused(t *testing.T) {
	_, err := ReadRun(begun(t, "refused"))
	if err == nil || !strings.Contains(err.Error(), "version: found 1, of a hippo from before shards") ||
		!strings.Contains(err.Error(), "train.accumulation 2") {
		t.Errorf("one state for two micro-batches: %v", err)
	}
	out := begun(t, "carried")
	path := filepath.Join(out, model.LastDir, train.TrainerFile)
	text := strings.Replace(string(contentOf(t, path)), `"version": 1`, `"version": 9, "program": "v9.1"`, 1)
	write(t, path, []byte(text))
	if err := os.Remove(filepath.Join(out, model.LastDir, checkpoint.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRun(out); err == nil ||
		!strings.Contains(err.Error(), "found 9, written by hippo v9.1, want 1 to 2") {
		t.Errorf("a later version: %v", err)
	}
	if _, err := ReadRun(begun(t, "task")); err == nil ||
		!strings.Contains(err.Error(), "found the run of a labelled network") {
		t.Errorf("the run of a task: %v", err)
	}
}

// TestOldSettings checks that accumulation of earlier versions is read and converted to shards.
func TestOldSettings(t *testing.T) {
	c := small(t)
	c.Train.Accumulation = 8
	if err := c.Validate(); err != nil || c.Train.Shards != 8 || c.Train.Accumulation != 0 {
		t.Errorf("accumulation 8: %+v, %v, want 8 shards", c.Train, err)
	}
	saved := Config{}
	if err := json.Unmarshal([]byte(`{"seed": 3, "train": {"steps": 5, "accumulation": 2}}`), &saved); err != nil ||
		saved.Seed != 3 || saved.Train.Steps != 5 || saved.Train.Shards != 2 || saved.Train.Accumulation != 0 {
		t.Errorf("saved with accumulation 2: %+v, %v, want 2 shards", saved.Train, err)
	}
}
