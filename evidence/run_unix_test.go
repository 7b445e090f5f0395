//go:build unix

package evidence

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterrupted checks that an interrupted command stops, along with the program that it started.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	program, started := filepath.Join(dir, "program"), filepath.Join(dir, "started")
	text := "#!/bin/sh\necho $$ >$1.part\nmv $1.part $1\nexec sleep 600\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		u := &Runner{Program: program, Out: io.Discard}
		_, err := u.shell(ctx, dir, "for i in 1 2; do hippo "+started+"; done")
		ended <- err
	}()
	var pid int
	for pid == 0 {
		time.Sleep(time.Millisecond)
		if text, err := os.ReadFile(started); err == nil {
			if pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("found %v, want that it was canceled", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the program still runs: %v", err)
	}
}

// TestFailureInALoop checks that an error of one call fails the command, even if the last call of a loop succeeds. A
// call whose work another process is doing does not fail it.
func TestFailureInALoop(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	text := "#!/bin/sh\n[ $1 != bad ] || exit 1\n" +
		"[ $1 != held ] || { echo x is in use by process 7 >&2; exit 1; }\necho $1\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	u := &Runner{Program: program, Out: io.Discard}
	if said, err := u.shell(t.Context(), dir, `sh -c "hippo peer"`); err != nil || said != "peer" {
		t.Errorf("called by another shell: found %q, %v", said, err)
	}
	for words, want := range map[string]bool{"good held good": true, "good bad good": false} {
		said, err := u.shell(t.Context(), dir, "for i in "+words+"; do hippo $i; done")
		if (err == nil) != want || want && !strings.HasSuffix(said, "good") {
			t.Errorf("%s: found %q, %v", words, said, err)
		}
	}
}
