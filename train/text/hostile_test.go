package text

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// mostBytes is the most bytes that reading a small checkpoint may allocate, whatever its content: for buffers of files
// and of an update.
const mostBytes = 256 << 20

// allocated returns the number of bytes that f allocates, in all goroutines.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func contentOf(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestDamagedCheckpoint checks that after one flipped bit in any file of the last checkpoint, resuming returns an error
// that names the file.
func TestDamagedCheckpoint(t *testing.T) {
	c := small(t)
	c.Train.CarryState = true
	mustRun(t, c)
	last := filepath.Join(c.Out, model.LastDir)
	names := []string{model.ConfigFile, model.WeightsFile, "tokenizer.json", "optimizer.safetensors", train.TrainerFile,
		carriedFile}
	for _, name := range names {
		path := filepath.Join(last, name)
		whole := contentOf(t, path)
		damaged := bytes.Clone(whole)
		at := len(damaged) / 2 // turns a space in JSON into a character that JSON allows only inside a string
		damaged[at] ^= 1
		write(t, path, damaged)
		cfg, err := ReadRun(c.Out)
		if err == nil {
			_, err = Resume(context.Background(), cfg, train.Events{})
		}
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
		write(t, path, whole)
	}
	cfg, err := ReadRun(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Train.Steps++
	if res, err := Resume(context.Background(), cfg, train.Events{}); err != nil || res.Step != cfg.Train.Steps {
		t.Errorf("whole again: %+v, %v", res, err)
	}
	if err := os.Remove(filepath.Join(last, checkpoint.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	cfg.Train.Steps++
	if res, err := Resume(context.Background(), cfg, train.Events{}); err != nil || res.Step != cfg.Train.Steps {
		t.Errorf("a folder of before there were manifests: %+v, %v", res, err)
	}
}

// TestHostileTrainerState checks that huge sizes and impossible steps are errors and allocate no memory.
func TestHostileTrainerState(t *testing.T) {
	c := small(t)
	c.Train.CarryState = true
	mustRun(t, c)
	path := filepath.Join(c.Out, model.LastDir, train.TrainerFile)
	whole := string(contentOf(t, path))
	if err := os.Remove(filepath.Join(c.Out, model.LastDir, checkpoint.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	for _, test := range [][3]string{ // original text, replacement, part of the error
		{"\n  \"step\": 6", "\n  \"step\": 1000000000000000000", "optimizer_updates: found 6, want as many as"},
		{"\n  \"step\": 6", "\n  \"step\": -1", "step: found -1, want 0 or more"},
		{"\n  \"step\": 6,\n  \"optimizer_updates\": 6", "\n  \"step\": 7,\n  \"optimizer_updates\": 7",
			"step: found 7, want at most the 6 steps"},
		{`"optimizer_updates": 6`, `"optimizer_updates": 5`, "optimizer_updates: found 5, want as many as step, 6"},
		{`"elapsed_ns": `, `"elapsed_ns": -1`, "elapsed_ns, cpu_ns, trained_ns, loss_n: found -1"},
		{`"steps": [`, `"steps": [1, `, "history.curve: found"},
		{`"best": `, `"best": 1`, "history.best: found 1"},
		{`"kind": "language model"`, `"kind": "labelled network"`, "kind: found the run of a labelled network, want"},
		{`"version": 2`, `"version": 3`, "version: found 3, written by hippo "},
		{`"shards": 2`, `"shards": 1000000000000000000`, "train.shards: found 1000000000000000000 of 64 tokens"},
		{`"d_model": 16`, `"d_model": 1000000000`, "want a model of at most 2^48 parameters"},
		{`"d_inner": 0`, `"d_inner": 1000000000`, "want [1000000000 16]"},
		{`"vocab_size": 256`, `"vocab_size": 1000000000`, "want [1000000000 16]"},
		{`"pad_vocab_size_multiple": 8`, `"pad_vocab_size_multiple": 1000000000`, "want [1000000000 16]"},
		{`"max_position_embeddings": 0`, `"max_position_embeddings": 1000000000`,
			"the model takes at most 1000000000 tokens"},
		{`"n_layer": 2`, `"n_layer": 10000`, "n_layer: found 10000 layers, want at most"},
		{`"batch_size": 2`, `"batch_size": 1000000000`, "want at most 16777216 tokens in a shard"},
		{`"seq_len": 32`, `"seq_len": 4000000000000000000`, "want at most 16777216 tokens in a shard"},
		{`"batch_size": 2`, `"batch_size": 80`, "data"}, // more sequences than the text has
	} {
		text := strings.Replace(whole, test[0], test[1], 1)
		if text == whole {
			t.Fatalf("%s is not in %s", test[0], whole)
		}
		write(t, path, []byte(text))
		var err error
		bytes := allocated(func() {
			var cfg Config
			if cfg, err = ReadRun(c.Out); err == nil {
				_, err = Resume(context.Background(), cfg, train.Events{})
			}
		})
		if err == nil || !strings.Contains(err.Error(), test[2]) || bytes > mostBytes {
			t.Errorf("%s: got %v and %d bytes, want %q and at most %d", test[1], err, bytes, test[2], mostBytes)
		}
	}
}

// fuzzed returns a run whose last checkpoint has no manifest, and its data.
func fuzzed(f *testing.F, carry bool) (Config, *Dataset) {
	c := small(f)
	c.Train.Steps, c.Train.CarryState = 2, carry
	mustRun(f, c)
	if err := os.Remove(filepath.Join(c.Out, model.LastDir, checkpoint.ManifestFile)); err != nil {
		f.Fatal(err)
	}
	d, err := c.OpenData(context.Background(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { d.Close() })
	return c, d
}

// FuzzTrainerState checks that resuming with any trainer.json succeeds or returns an error, in bounded memory.
func FuzzTrainerState(f *testing.F) {
	c, d := fuzzed(f, true)
	path := filepath.Join(c.Out, model.LastDir, train.TrainerFile)
	whole := contentOf(f, path)
	f.Add(whole)
	for _, key := range []string{"d_model", "batch_size", "n_layer", "vocab_size", "step"} {
		f.Add(bytes.Replace(whole, fmt.Appendf(nil, "%q: ", key), fmt.Appendf(nil, "%q: 99999999", key), 1))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		write(t, path, text)
		if n := allocated(func() {
			if cfg, err := ReadRun(c.Out); err == nil && cfg.Validate() == nil {
				_, _ = resumed(cfg, d)
			}
		}); n > mostBytes+64*len(text) {
			t.Errorf("%d bytes were allocated", n)
		}
	})
}

// FuzzCarriedState checks that restoring any state.safetensors succeeds or returns an error, in bounded memory.
func FuzzCarriedState(f *testing.F) {
	c, d := fuzzed(f, true)
	path := filepath.Join(c.Out, model.LastDir, carriedFile)
	f.Add(contentOf(f, path))
	tr, err := New(c, d)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, path, data)
		if n := allocated(func() {
			states, err := readCarried(path, tr.Model, c.Train.sequences(), 3*c.Train.SeqLen)
			if err != nil {
				return
			}
			for _, s := range states {
				s.Keep(c.Train.SeqLen)
			}
		}); n > mostBytes+64*len(data) {
			t.Errorf("%d bytes were allocated", n)
		}
	})
}
