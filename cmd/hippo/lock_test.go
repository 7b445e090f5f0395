package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// wantInUse checks that a command fails because its folder is in use, and that the error names the process that uses
// it.
func wantInUse(t *testing.T, dir string, by *process, args ...string) {
	t.Helper()
	out, err := command(dir, args...).CombinedOutput()
	want := fmt.Sprintf(" is in use by process %d on ", by.cmd.Process.Pid)
	command := strings.Join(by.cmd.Args[1:], " ")
	if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), command) {
		t.Errorf("%q: %v, found no %q with the command:\n%s", args, err, want, out)
	}
}

// longRun holds the arguments of a training run that does not end.
var longRun = []string{"train", "--config", "tiny.yaml", "--train.steps", "1000000", "--train.eval_every", "1000000",
	"--train.save_every", "2"}

// TestTwoTrainersInOneFolder checks that a second training run in a folder is refused with an error that names the
// first, whether it starts anew or resumes. A killed run does not block the folder.
func TestTwoTrainersInOneFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	first := background(t, dir, append(longRun, "--out", "run")...)
	first.waitFor("the run", func() bool { return disk.Exists(filepath.Join(dir, "run", "metrics.jsonl")) })
	wantInUse(t, dir, first, "train", "--config", "tiny.yaml", "--out", "run")
	first.waitFor("the first checkpoint", func() bool {
		return disk.Exists(filepath.Join(dir, "run", "last", "trainer.json"))
	})
	wantInUse(t, dir, first, "train", "--config", "tiny.yaml", "--out", "run")
	wantInUse(t, dir, first, "train", "--resume", "run")
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.ended
	var log bytes.Buffer
	second := command(dir, "train", "--resume", "run", "--train.steps", "1")
	second.Stdout, second.Stderr = &log, &log
	if err := second.Run(); err != nil {
		t.Errorf("after the first was killed: %v\n%s", err, &log)
	}
}

// TestFreshTrainersTakeOtherFolders checks that runs that are started at the same time without --out take different
// folders.
func TestFreshTrainersTakeOtherFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	const n = 4
	var trainers []*process
	for range n {
		trainers = append(trainers, background(t, dir, longRun...))
	}
	waitFor(t, "folders of all", func() bool {
		found, err := filepath.Glob(filepath.Join(dir, "runs", "tiny*", "metrics.jsonl"))
		return err == nil && len(found) == n
	}, trainers...)
	for i := 1; i <= n; i++ {
		name := "tiny"
		if i > 1 {
			name = fmt.Sprintf("tiny-%d", i)
		}
		if !disk.Exists(filepath.Join(dir, "runs", name, "metrics.jsonl")) {
			t.Errorf("runs/%s is not there", name)
		}
	}
}

// TestTasksHaveTheirFolders checks that the run of a task is refused in a folder in use, as training is.
func TestTasksHaveTheirFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	task := []string{"task", "run", "induction(train=2000)", "--epochs", "100000", "--eval_limit", "10", "--out",
		"runs/induction/h3-seed1"}
	first := background(t, dir, task...)
	first.waitFor("the task", func() bool {
		return disk.Exists(filepath.Join(dir, "runs/induction/h3-seed1", "metrics.jsonl"))
	})
	wantInUse(t, dir, first, task...)
}

// TestTemporaryFilesAreSwept checks that the next run in a folder removes the temporary files of killed processes, even
// if all its work is already done.
func TestTemporaryFilesAreSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	task := []string{"task", "run", "induction(train=20,test=20)", "--epochs", "1", "--out", "task"}
	train := []string{"train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "3"}
	for _, args := range [][]string{task, train} {
		if out, err := command(dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	left := []string{"task/curve.png", "task/REPORT.md", "run/metrics.jsonl", "run/MODEL.md"}
	for i := range left {
		left[i] = filepath.Join(dir, left[i]+".tmp-0123456789abcdef")
		if err := os.WriteFile(left[i], []byte("half"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{task, {"train", "--resume", "run"}} {
		if out, err := command(dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, path := range left {
		if disk.Exists(path) {
			t.Errorf("%s is still there", path)
		}
	}
}
