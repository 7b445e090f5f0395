//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v\n%s", err, &p.said)
	}
}

// hasMetrics returns a function that reports whether a run has made an update.
func hasMetrics(run string) func() bool {
	return func() bool {
		info, err := os.Stat(filepath.Join(run, "metrics.jsonl"))
		return err == nil && info.Size() > 0
	}
}

// TestInterrupt checks that after Ctrl-C or SIGTERM a run saves a checkpoint, prints the command that resumes it and
// ends with status 130.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	out := "a run" // must be quoted for a shell
	said := regexp.MustCompile(
		`(?m)^interrupted at step (\d+); to resume:\n  (hippo train --resume 'a run')$`)

	r := background(t, dir, append(longRun, "--train.save_every", "1000000", "--out", out)...)
	r.waitFor("the first step", hasMetrics(filepath.Join(dir, out)))
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
	r.waitFor("another step", func() bool {
		now, err := os.ReadFile(filepath.Join(dir, out, "metrics.jsonl"))
		return err == nil && len(now) > len(before)
	})
	r.signal(syscall.SIGTERM)
	log = r.wantEnd(130)
	if want := "resuming from step " + first[1] + "\n"; !strings.Contains(log, want) {
		t.Errorf("found no %q:\n%s", want, log)
	}
	if !said.MatchString(log) {
		t.Errorf("found no resume command:\n%s", log)
	}
}

// TestInterruptTwice checks that the second Ctrl-C ends the program at once, in the middle of a step.
func TestInterruptTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	// One update takes a minute. After the pause the first signal comes in the middle of it.
	r := background(t, dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.seq_len", "2048",
		"--model.d_model", "64", "--train.shards", "5000", "--train.steps", "2")
	r.waitFor("the run", func() bool { return disk.Exists(filepath.Join(dir, "run", "metrics.jsonl")) })
	time.Sleep(500 * time.Millisecond)
	// Two signals at the same moment count as one, so more are sent until the program ends, long before the update
	// would.
	go func() {
		for r.cmd.Process.Signal(os.Interrupt) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	log := r.wantEnd(130)
	if strings.Contains(log, "; to resume:") || disk.Exists(filepath.Join(dir, "run", "last")) {
		t.Errorf("it saved a checkpoint first:\n%s", log)
	}
}

// TestInterruptOthers checks that commands that wait or work for long end at the first Ctrl-C.
func TestInterruptOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	train := command(dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "1")
	if out, err := train.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "large.txt"), bytes.Repeat([]byte("whale "), 1<<19), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"generate", "run", "Hello", "--max_tokens", "100000000"},
		{"generate", "run"}, // waits for standard input
		{"tokenizer", "encode", "bytes"},
		{"eval", "run", "--seq_len", "1", "--batch_size", "1", "--data", "large.txt"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			for pause := 100 * time.Millisecond; ; pause *= 2 {
				cmd := command(dir, args...)
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				r := start(t, cmd)
				time.Sleep(pause) // until the command is running
				r.signal(os.Interrupt)
				<-r.ended
				in.Close()
				// The signal killed a program that did not catch signals yet: the pause was too short.
				if r.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() && pause < 20*time.Second {
					continue
				}
				if log := r.wantEnd(130); strings.Contains(log, "hippo: ") {
					t.Errorf("it called that an error:\n%s", log)
				}
				return
			}
		})
	}
}

// TestInterruptCompare checks that Ctrl-C ends a comparison with status 130 and a report of how much is done, and that
// the same command resumes it.
func TestInterruptCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"compare", "tiny.yaml", "h3,attention", "--params", "12000", "--time", "1h", "--out", "runs"}
	r := background(t, dir, arguments...)
	r.waitFor("the first step", hasMetrics(filepath.Join(dir, "runs", "tiny", "seed-1")))
	r.signal(os.Interrupt)
	want := "interrupted; 0 of 2 runs are done; the same command resumes\n"
	if log := r.wantEnd(130); !strings.Contains(log, want) {
		t.Errorf("found no %q:\n%s", want, log)
	}
	before, err := os.ReadFile(filepath.Join(dir, "runs", "tiny", "seed-1", "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	r = background(t, dir, arguments...)
	r.waitFor("another step", func() bool {
		now, err := os.ReadFile(filepath.Join(dir, "runs", "tiny", "seed-1", "metrics.jsonl"))
		return err == nil && len(now) > len(before)
	})
	r.signal(os.Interrupt)
	r.wantEnd(130)
}

// TestHangup checks that every training command saves a checkpoint, as after Ctrl-C, when its terminal is closed. A
// closed terminal sends SIGHUP more than once and reads no more output.
func TestHangup(t *testing.T) {
	t.Parallel()
	// A test under nohup ignores SIGHUP, and its child processes inherit that. They do not if the test catches the
	// signal.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	for out, c := range map[string]struct {
		args  []string
		began string // pattern of a file that exists and is not empty once the work has begun
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
			r := start(t, cmd)
			var found []string
			r.waitFor("the first step", func() bool {
				if found, err = filepath.Glob(filepath.Join(dir, c.began)); err != nil || len(found) == 0 {
					return false
				}
				info, err := os.Stat(found[0])
				return err == nil && info.Size() > 0
			})
			read.Close()
			write.Close()
			r.signal(syscall.SIGHUP)
			r.signal(syscall.SIGHUP)
			r.wantEnd(130)
			if last := filepath.Join(filepath.Dir(found[0]), "last"); !disk.Exists(last) {
				t.Errorf("%s is not there", last)
			}
		})
	}
}

// TestNohup checks that a program that was started with SIGHUP ignored continues after SIGHUP.
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
	r.waitFor("the first step", hasMetrics(filepath.Dir(metrics)))
	r.signal(syscall.SIGHUP)
	before, err := os.ReadFile(metrics)
	if err != nil {
		t.Fatal(err)
	}
	r.waitFor("many more steps", func() bool {
		now, err := os.ReadFile(metrics)
		return err == nil && len(now) > 2*len(before)+5000
	})
	r.signal(syscall.SIGTERM)
	r.wantEnd(130)
}

// TestShortLivedMachine checks that the run of a task makes progress even if it is killed every few seconds.
func TestShortLivedMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	args := []string{"task", "run", "induction(train=2000)", "--epochs", "100000", "--eval_limit", "10", "--out",
		"task"}
	place := filepath.Join(dir, "task", "last", "trainer.json")
	r := background(t, dir, args...)
	r.waitFor("the first checkpoint", func() bool { return disk.Exists(place) })
	r.signal(os.Kill)
	r.wantEnd(-1)
	before, err := os.ReadFile(place)
	if err != nil {
		t.Fatal(err)
	}
	r = background(t, dir, args...)
	r.waitFor("another checkpoint", func() bool {
		now, err := os.ReadFile(place)
		return err == nil && !bytes.Equal(now, before)
	})
	r.signal(os.Interrupt)
	if log := r.wantEnd(130); !strings.Contains(log, "resuming from step ") {
		t.Errorf("it did not go on:\n%s", log)
	}
}

// TestClosedConnectionEndsNothing checks that the context of whileRead survives SIGPIPE from a write to a closed
// connection, and that isUnread detects a pipe without a reader.
func TestClosedConnectionEndsNothing(t *testing.T) {
	ctx, stop := whileRead(t.Context())
	defer stop()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	if isUnread(ours) {
		t.Error("a connection that is open is unread")
	}
	theirs.Close()
	if _, err := ours.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) || !isUnread(ours) {
		t.Errorf("writing to a closed connection: %v", err)
	}
	select {
	case <-ctx.Done():
		t.Error("a closed connection ended the work")
	case <-time.After(20 * time.Millisecond): // time for the signal to arrive
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if isUnread(w) {
		t.Error("a pipe that is read is unread")
	}
	r.Close()
	if !isUnread(w) {
		t.Error("a pipe without a reader is read")
	}
}
