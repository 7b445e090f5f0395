package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/session"
)

// TestKilledReadGoesOn kills hippo read at random moments, again and again. It checks that each next process reads the
// rest, and that the final session is that of an undisturbed process.
func TestKilledReadGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "text.txt"))
	if err != nil {
		t.Fatal(err)
	}
	book := []byte(strings.Repeat(string(text), 4))
	if err := os.WriteFile(filepath.Join(dir, "book.txt"), book, 0o666); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := command(dir, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "1")
	start := time.Now()
	run("read", "run", "whole", "book.txt", "text.txt", "--store", "sessions")
	whole := time.Since(start)

	rng := rand.New(rand.NewPCG(3, 4))
	read := []string{"read", "run", "killed", "book.txt", "text.txt", "--store", "sessions", "--save_every", "0s"}
	path := filepath.Join(dir, "sessions", "killed.session")
	last := 0
	for range 6 {
		p := background(t, dir, read...)
		select {
		case <-p.ended:
		case <-time.After(time.Duration(rng.Int64N(int64(whole) / 2))):
		}
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		<-p.ended
		if info, err := session.Inspect(path, nil); err == nil {
			if info.Position < last {
				t.Errorf("%d tokens have been read, after %d before", info.Position, last)
			}
			last = info.Position
		} else if !errors.Is(err, os.ErrNotExist) || last > 0 {
			t.Fatalf("after %d tokens: %v", last, err)
		}
	}
	t.Logf("%d of %d tokens after 6 kills; a whole read takes %v", last, len(book)+len(text), whole)
	run(read...)
	a, err := session.Inspect(path, nil)
	if err != nil || a.Position != len(book)+len(text) || len(a.Marks) != 2 {
		t.Fatalf("read %d tokens, marks %v, want %d: %v", a.Position, a.Marks, len(book)+len(text), err)
	}
	generate := func(name string) string {
		return run("generate", "run", "What?", "--session", name, "--store", "sessions", "--seed", "1",
			"--max_tokens", "40", "--temperature", "2")
	}
	if got, want := generate("killed"), generate("whole"); got != want {
		t.Errorf("the killed session goes on with %q, want %q", got, want)
	}
	run("session", "list", "--store", "sessions")
	left, err := filepath.Glob(filepath.Join(dir, "sessions", "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("files are left: %q, %v", left, err)
	}
}
