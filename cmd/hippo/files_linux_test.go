package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
)

func init() { commands["limited"] = limited }

// limited runs hippo as on a full disk: with "limited BYTES ARG..." no file can become larger than BYTES. As SIGXFSZ is
// ignored, a write beyond the limit returns an error.
func limited() {
	size, err := strconv.ParseUint(os.Args[1], 10, 64)
	if err != nil {
		panic(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: size}); err != nil {
		panic(err)
	}
	os.Exit(run(os.Args[2:]))
}

// TestFullDisk checks that, when a checkpoint cannot be written, the error says so and the previous checkpoint is
// whole, whichever file did not fit.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	try := func(program string, args ...string) (string, error) {
		out, err := commandNamed(program, dir, args...).CombinedOutput()
		return string(out), err
	}
	if out, err := try("hippo", "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "3"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	last := filepath.Join(dir, "run", "last")
	before, err := os.ReadFile(filepath.Join(last, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for size, file := range map[string]string{"20000": "model.safetensors", "60000": "optimizer.safetensors"} {
		out, err := try("limited", size, "train", "--resume", "run", "--train.steps", "6")
		if err == nil {
			t.Fatalf("%s fits into %s bytes:\n%s", file, size, out)
		}
		for _, want := range []string{"hippo: checkpoint: writing ", "file too large", "is as it was before", file} {
			if !strings.Contains(out, want) {
				t.Fatalf("found no %q:\n%s", want, out)
			}
		}
		if strings.Contains(out, disk.TmpMark) {
			t.Errorf("the temporary folder is named:\n%s", out)
		}
	}
	after, err := os.ReadFile(filepath.Join(last, "model.safetensors"))
	if err != nil || string(after) != string(before) {
		t.Errorf("the last checkpoint changed, %v", err)
	}
	for _, args := range [][]string{
		{"generate", "run/last", "Hello", "--max_tokens", "3"},
		{"train", "--resume", "run", "--train.steps", "6"},
	} {
		if out, err := try("hippo", args...); err != nil {
			t.Errorf("%q on a disk with room: %v\n%s", args, err, out)
		}
	}
	out, err := try("limited", "20000", "convert", "run/best/model.safetensors", "new")
	if err == nil || disk.Exists(filepath.Join(dir, "new")) {
		t.Errorf("convert: got %v, want an error and no folder:\n%s", err, out)
	}
}

// TestReadersDoNotDisturb checks that a model can be used from the folder of a run that is training, while the run
// writes checkpoint after checkpoint. (On systems that cannot exchange two folders atomically, there are moments
// without one.)
func TestReadersDoNotDisturb(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	training := background(t, dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "1000000",
		"--train.save_every", "1", "--train.eval_every", "1")
	training.waitFor("the first checkpoint", func() bool { return disk.Exists(filepath.Join(dir, "run", "best")) })
	for range 30 {
		if out, err := command(dir, "info", "run").CombinedOutput(); err != nil {
			t.Fatalf("info of a run that is training: %v\n%s", err, out)
		}
	}
	if training.hasEnded() {
		t.Errorf("the training has ended: %v\n%s", training.cmd.ProcessState, &training.said)
	}
}
