//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running is a hippo that a test talks to by signals.
type running struct {
	t   *testing.T
	cmd *exec.Cmd
	log bytes.Buffer
}

func start(t *testing.T, cmd *exec.Cmd) *running {
	r := &running{t: t, cmd: cmd}
	cmd.Stdout, cmd.Stderr = &r.log, &r.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) // fails, as it should, when it has ended
	return r
}

func (r *running) signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatalf("%v\n%s", err, &r.log)
	}
}

// wantEnd waits for the end of the program, which must come with the status given, and returns what it said.
func (r *running) wantEnd(status int) string {
	r.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- r.cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		r.cmd.Process.Kill()
		r.t.Fatalf("still running after 30 s\n%s", &r.log)
	}
	if got := r.cmd.ProcessState.ExitCode(); got != status {
		r.t.Fatalf("exit status %d, want %d\n%s", got, status, &r.log)
	}
	return r.log.String()
}

func hasMetrics(run string) func() bool {
	return func() bool {
		info, err := os.Stat(filepath.Join(run, "metrics.jsonl"))
		return err == nil && info.Size() > 0
	}
}

// TestInterrupt: Ctrl-C saves a checkpoint, ends with status 130, and prints the command that goes on. So does SIGTERM.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	out := "a run" // which a shell needs quoted
	said := regexp.MustCompile(`(?m)^interrupted at step (\d+); to go on from there:\n  (hippo train --resume 'a run')$`)

	r := start(t, command(dir, "train", "--config", "tiny.yaml", "--out", out, "--train.steps", "1000000", "--train.eval_every", "1000000",
		"--train.save_every", "1000000"))
	waitFor(t, "the first step", hasMetrics(filepath.Join(dir, out)))
	r.signal(os.Interrupt)
	log := r.wantEnd(130)
	first := said.FindStringSubmatch(log)
	if first == nil {
		t.Fatalf("found no resume command:\n%s", log)
	}

	shell := exec.Command("sh", "-c", "exec "+first[2])
	shell.Dir, shell.Env = dir, command(dir).Env
	before, err := os.ReadFile(filepath.Join(dir, out, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	r = start(t, shell)
	waitFor(t, "another step", func() bool {
		now, err := os.ReadFile(filepath.Join(dir, out, "metrics.jsonl"))
		return err == nil && len(now) > len(before)
	})
	r.signal(syscall.SIGTERM)
	log = r.wantEnd(130)
	if want := "going on from step " + first[1] + "\n"; !strings.Contains(log, want) {
		t.Errorf("found no %q:\n%s", want, log)
	}
	if !said.MatchString(log) {
		t.Errorf("found no resume command:\n%s", log)
	}
}

// TestInterruptTwice: the second Ctrl-C ends the program at once, in the middle of a step.
func TestInterruptTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	// One update is a minute of work, of which a moment is waited for so that the first signal comes in its middle.
	r := start(t, command(dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.seq_len", "2048", "--model.d_model", "64",
		"--train.shards", "5000", "--train.steps", "2"))
	waitFor(t, "the run", func() bool { return exists(filepath.Join(dir, "run", "metrics.jsonl")) })
	time.Sleep(500 * time.Millisecond)
	// Signals that come at once count as one, so that more are sent until it ends, long before the update would.
	go func() {
		for r.cmd.Process.Signal(os.Interrupt) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	log := r.wantEnd(130)
	if strings.Contains(log, "to go on from there") || exists(filepath.Join(dir, "run", "last")) {
		t.Errorf("it saved a checkpoint first:\n%s", log)
	}
}

// TestInterruptOthers: commands that wait or work for long end at the first Ctrl-C.
func TestInterruptOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	if out, err := command(dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "1").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, args := range [][]string{
		{"generate", "run", "Hello", "--max_tokens", "100000000"},
		{"generate", "run"}, // waits for standard input
		{"tokenizer", "encode", "bytes"},
		{"eval", "run", "--seq_len", "1", "--batch_size", "1", "--data", "large.txt"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "large.txt"), bytes.Repeat([]byte("whale "), 1<<19), 0o666); err != nil {
			t.Fatal(err)
		}
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			cmd := command(dir, args...)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			r := start(t, cmd)
			time.Sleep(300 * time.Millisecond) // to be under way
			r.signal(os.Interrupt)
			if log := r.wantEnd(130); strings.Contains(log, "hippo: ") {
				t.Errorf("it called that an error:\n%s", log)
			}
		})
	}
}

// TestInterruptCompare: Ctrl-C in a comparison ends with status 130, says how much is done, and the same command goes on.
func TestInterruptCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"compare", "tiny.yaml", "h3,attention", "--params", "12000", "--time", "1h", "--out", "runs"}
	r := start(t, command(dir, arguments...))
	waitFor(t, "the first step", hasMetrics(filepath.Join(dir, "runs", "tiny", "seed-1")))
	r.signal(os.Interrupt)
	if log, want := r.wantEnd(130), "interrupted; 0 of 2 runs are done; the same command goes on from there\n"; !strings.Contains(log, want) {
		t.Errorf("found no %q:\n%s", want, log)
	}
	before, err := os.ReadFile(filepath.Join(dir, "runs", "tiny", "seed-1", "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	r = start(t, command(dir, arguments...))
	waitFor(t, "another step", func() bool {
		now, err := os.ReadFile(filepath.Join(dir, "runs", "tiny", "seed-1", "metrics.jsonl"))
		return err == nil && len(now) > len(before)
	})
	r.signal(os.Interrupt)
	r.wantEnd(130)
}

// TestHangup: a terminal that is closed, which sends SIGHUP more than once and reads no more, saves a checkpoint as
// Ctrl-C does, in all that trains.
func TestHangup(t *testing.T) {
	t.Parallel()
	// A test run under nohup ignores SIGHUP, and so would what it starts. A signal that is caught is not inherited.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	for out, c := range map[string]struct {
		args  []string
		began string // pattern of a file that is there, and not empty, when the work has begun
	}{
		"run": {append(longRun, "--train.save_every", "1000000", "--out", "run"), "run/metrics.jsonl"},
		"task": {
			args: []string{"task", "run", "induction(train=2000)", "--epochs", "100000", "--eval_every", "0.02",
				"--eval_limit", "10", "--out", "task"},
			began: "task/metrics.jsonl",
		},
		"compared": {
			args: []string{"compare", "tiny.yaml", "h3,attention", "--params", "12000", "--time", "1h", "--out",
				"compared"},
			began: "compared/tiny/seed-1/metrics.jsonl",
		},
		"table": {
			args: []string{"task", "table", "induction(train=2000)", "--models", "h3", "--set",
				"epochs=100000,eval_every=0.02,eval_limit=10",
				"--out", "table"},
			began: "table/*/h3-seed1/metrics.jsonl",
		},
	} {
		t.Run(out, func(t *testing.T) {
			t.Parallel()
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := command(dir, c.args...)
			cmd.Stdout, cmd.Stderr = write, write
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill() }) // fails, as it should, when it has ended
			var found []string
			waitFor(t, "the first step", func() bool {
				if found, err = filepath.Glob(filepath.Join(dir, c.began)); err != nil || len(found) == 0 {
					return false
				}
				info, err := os.Stat(found[0])
				return err == nil && info.Size() > 0
			})
			read.Close()
			write.Close()
			r := &running{t: t, cmd: cmd}
			r.signal(syscall.SIGHUP)
			r.signal(syscall.SIGHUP)
			r.wantEnd(130)
			if last := filepath.Join(filepath.Dir(found[0]), "last"); !exists(last) {
				t.Errorf("%s is not there", last)
			}
		})
	}
}

// TestNohup: a program that was started with SIGHUP ignored goes on after it.
func TestNohup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("sh", "-c", "trap '' HUP; exec hippo "+strings.Join(longRun, " ")+" --out run")
	shell.Dir, shell.Env = dir, command(dir).Env
	r := start(t, shell)
	metrics := filepath.Join(dir, "run", "metrics.jsonl")
	waitFor(t, "the first step", hasMetrics(filepath.Dir(metrics)))
	r.signal(syscall.SIGHUP)
	before, err := os.ReadFile(metrics)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "many more steps", func() bool {
		now, err := os.ReadFile(metrics)
		return err == nil && len(now) > 2*len(before)+5000
	})
	r.signal(syscall.SIGTERM)
	r.wantEnd(130)
}

// TestShortLivedMachine: a task's run that is killed again and again after some seconds gets on.
func TestShortLivedMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	args := []string{"task", "run", "induction(train=2000)", "--epochs", "100000", "--eval_limit", "10", "--out",
		"task"}
	place := filepath.Join(dir, "task", "last", "trainer.json")
	r := start(t, command(dir, args...))
	waitFor(t, "the first checkpoint", func() bool { return exists(place) })
	r.signal(os.Kill)
	r.wantEnd(-1)
	before, err := os.ReadFile(place)
	if err != nil {
		t.Fatal(err)
	}
	r = start(t, command(dir, args...))
	waitFor(t, "another checkpoint", func() bool {
		now, err := os.ReadFile(place)
		return err == nil && !bytes.Equal(now, before)
	})
	r.signal(os.Interrupt)
	if log := r.wantEnd(130); !strings.Contains(log, "going on from step ") {
		t.Errorf("it did not go on:\n%s", log)
	}
}
