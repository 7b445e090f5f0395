package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// TestKilledRunGoesOn kills a run at random moments, again and again, and resumes it from its last checkpoint. It
// checks that the final weights and the curve are, bit for bit, those of an undisturbed run.
func TestKilledRunGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	settings := []string{"train", "--config", "tiny.yaml", "--train.steps", "30", "--train.save_every", "1",
		"--train.eval_every", "7", "--model.resid_dropout", "0.1"}
	start := time.Now()
	if out, err := command(dir, append(settings, "--out", "whole")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole := time.Since(start)

	const kills = 5
	rng := rand.New(rand.NewPCG(1, 2))
	args := append(settings, "--out", "killed")
	for killed := 0; ; {
		run := background(t, dir, args...)
		if killed == 0 {
			run.waitFor("the first checkpoint", func() bool {
				return disk.Exists(filepath.Join(dir, "killed", "last"))
			})
		}
		if killed < kills {
			select {
			case <-run.ended:
			case <-time.After(time.Duration(rng.Int64N(int64(whole) / (kills - 1)))):
				if err := run.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
				<-run.ended
				killed++
				args = []string{"train", "--resume", "killed"}
				continue
			}
		}
		run.wantEnd(0)
		t.Logf("%d kills; a whole run takes %v", killed, whole)
		break
	}
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		sameFile(t, filepath.Join(dir, "killed", "last", name), filepath.Join(dir, "whole", "last", name))
	}
	sameFile(t, filepath.Join(dir, "killed", "best", "model.safetensors"),
		filepath.Join(dir, "whole", "best", "model.safetensors"))
	if got, want := losses(t, filepath.Join(dir, "killed")), losses(t, filepath.Join(dir, "whole")); got != want {
		t.Errorf("curve of the killed run:\n%s\nwant\n%s", got, want)
	}
	left, err := filepath.Glob(filepath.Join(dir, "killed", "*.tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func sameFile(t *testing.T, got, want string) {
	t.Helper()
	a, errA := os.ReadFile(got)
	b, errB := os.ReadFile(want)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("%s (%d bytes, %v) differs from %s (%d bytes, %v)", got, len(a), errA, want, len(b), errB)
	}
}

// losses returns the content of metrics.jsonl without the fields that depend on time.
func losses(t *testing.T, run string) string {
	t.Helper()
	file, err := os.Open(filepath.Join(run, "metrics.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out strings.Builder
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var m map[string]float64
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatalf("%s: %v: %s", file.Name(), err, lines.Bytes())
		}
		for _, key := range []string{"tokens_per_s", "elapsed_s", "mem_bytes"} {
			delete(m, key)
		}
		line, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.String()
}
