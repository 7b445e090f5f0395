package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pty is a program whose output is a terminal.
type pty struct {
	*process
	read chan struct{} // closed when the program has ended and all it wrote has been read
	keys *os.File      // bytes written to it are typed on the terminal
}

// keyboard is a placeholder for the input of the terminal that onTerminal makes.
var keyboard = strings.NewReader("")

// onTerminal starts a program with its output on a terminal. If its input is keyboard, that is on the terminal, too.
func onTerminal(t *testing.T, cmd *exec.Cmd) *pty {
	t.Helper()
	master, user := openTerminal(t)
	if cmd.Stdin == keyboard {
		cmd.Stdin = user
	}
	cmd.Stdout, cmd.Stderr = user, user
	s := &pty{process: start(t, cmd), read: make(chan struct{}), keys: master}
	if err := user.Close(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.read)
		io.Copy(&s.said, master) // returns an error when the program has closed its side
	}()
	return s
}

// openTerminal returns both sides of a new terminal.
func openTerminal(t *testing.T) (master, user *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	user, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, user
}

func (s *pty) text() string { return strings.ReplaceAll(s.said.String(), "\r\n", "\n") }

// oneStep returns a folder in which run holds a model after one update. Its vocabulary is all bytes.
func oneStep(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	train := command(dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "1")
	if out, err := train.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestGenerateOnTerminal checks that control characters of a prompt and of an untrained model are written to a file,
// but not to a terminal.
func TestGenerateOnTerminal(t *testing.T) {
	t.Parallel()
	dir := oneStep(t)
	args := []string{
		"generate", "run", "red: \x1b[31m, bell: \a\ttab", "--temperature", "2", "--top_k", "0",
		"--seed", "1", "--stats",
	}
	control := regexp.MustCompile(`[^\P{Cc}\n\t]`)
	for _, more := range [][]string{nil, {"--samples", "2"}, {"--json"}} {
		cmd := command(dir, append(args, more...)...)
		s := onTerminal(t, cmd)
		s.wantEnd(0)
		<-s.read
		if found := control.FindString(s.text()); found != "" {
			t.Errorf("with %v the terminal gets %q: %q", more, found, s.text())
		}
		if !strings.Contains(s.text(), "\nprefill ") {
			t.Errorf("with %v the speeds do not begin a line: %q", more, s.text())
		}
		if more == nil && !strings.HasPrefix(s.text(), "red: \\x1b[31m, bell: \\x07\ttab") {
			t.Errorf("the terminal shows %q", s.text())
		}
	}
	out, err := command(dir, args...).Output()
	if err != nil || !strings.HasPrefix(string(out), args[2]) || len(control.FindAll(out, -1)) < 10 {
		t.Errorf("a file gets %q, %v", out, err)
	}
}

// TestInterruptReading checks that the progress of reading a long prompt is shown on a terminal, and that Ctrl-C ends
// the reading.
func TestInterruptReading(t *testing.T) {
	t.Parallel()
	dir := oneStep(t)
	const long = 20 << 20 // minutes of attention
	path := filepath.Join(dir, "long.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("whale ", long/6)), 0o666); err != nil {
		t.Fatal(err)
	}
	prompt, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer prompt.Close()
	cmd := command(dir, "generate", "run")
	cmd.Stdin = prompt
	s := onTerminal(t, cmd)
	line := regexp.MustCompile(`reading .*[0-9.]+K/21\.0M`)
	s.waitFor("a line that says how far it is", func() bool { return line.MatchString(s.text()) })
	s.signal(os.Interrupt)
	s.wantEnd(130)
	<-s.read
	if strings.Contains(s.text(), "hippo: ") {
		t.Errorf("it called that an error: %q", s.text())
	}
}
