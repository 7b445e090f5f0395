package main

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// process is a program that runs in the background of a test. It is killed when the test ends.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	said  output        // standard output and standard error, unless the test redirects them
	ended chan struct{} // closed when the program has ended
}

// start starts a program.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &p.said, &p.said
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		cmd.Wait() // wantEnd checks the status
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // fails if the program has ended, which is no problem
		<-p.ended
	})
	return p
}

// background starts hippo in a folder that setUp filled.
func background(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return start(t, command(dir, args...))
}

// waitFor waits until ok returns true. It fails if one of the programs ends before.
func waitFor(t *testing.T, what string, ok func() bool, programs ...*process) {
	t.Helper()
	late := deadline(t)
	for !ok() {
		for _, p := range programs {
			if p.hasEnded() && !ok() {
				t.Fatalf("%s has ended before %s: %v\n%s", p, what, p.cmd.ProcessState, &p.said)
			}
		}
		select {
		case <-late:
			for _, p := range programs {
				t.Logf("%s said:\n%s", p, &p.said)
			}
			t.Fatalf("waited in vain for %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// waitFor waits until ok returns true. It fails if the program ends before.
func (p *process) waitFor(what string, ok func() bool) {
	p.t.Helper()
	waitFor(p.t, what, ok, p)
}

// wantEnd waits for the end of the program, which must have the given status, and returns its output.
func (p *process) wantEnd(status int) string {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-deadline(p.t):
		p.t.Fatalf("%s still runs:\n%s", p, &p.said)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Fatalf("%s: exit status %d, want %d\n%s", p, got, status, &p.said)
	}
	return p.said.String()
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// String returns the command line.
func (p *process) String() string { return strings.Join(p.cmd.Args, " ") }

// deadline returns a channel that receives a value shortly before the test binary's timeout. It returns nil if there is
// no timeout.
func deadline(t *testing.T) <-chan time.Time {
	end, ok := t.Deadline()
	if !ok {
		return nil
	}
	const report = 10 * time.Second // time to report what was waited for, and to end programs
	return time.After(time.Until(end) - report)
}

// output is the output of a program so far. A test may read it while the program runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

var _ io.Writer = (*output)(nil)

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
