package status

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A screen is a terminal of a certain width that knows \r and \n. It fails the test if a line wraps or if anything but
// printable characters, \r and \n is written.
type screen struct {
	t     *testing.T
	width int
	lines []string // finished lines
	row   []rune   // the line of the cursor
	col   int
	draws int // carriage returns that start a drawing
}

func (s *screen) Write(p []byte) (int, error) {
	for _, r := range string(p) {
		switch {
		case r == '\r':
			s.col = 0
			s.draws++
		case r == '\n':
			s.lines = append(s.lines, strings.TrimRight(string(s.row), " "))
			s.row, s.col = nil, 0
		case r < ' ':
			s.t.Errorf("control character %q", r)
		default:
			for len(s.row) <= s.col {
				s.row = append(s.row, ' ')
			}
			s.row[s.col] = r
			if s.col++; s.col >= s.width {
				s.t.Errorf("the line %q wraps at %d columns", string(s.row), s.width)
			}
		}
	}
	return len(p), nil
}

func (s *screen) current() string { return strings.TrimRight(string(s.row), " ") }

// newTerminal returns a printer to a screen, and the time that it uses.
func newTerminal(t *testing.T, width int) (*Printer, *screen, *time.Time) {
	s := &screen{t: t, width: width}
	now := time.Unix(1000, 0)
	p := &Printer{out: s, width: func() int { return s.width }, every: redraw, now: func() time.Time { return now }}
	return p, s, &now
}

func text(s string) Line { return Line{{Value: s}} }

func TestTerminalRewritesOneLine(t *testing.T) {
	p, s, now := newTerminal(t, 40)
	for _, l := range []string{"a long first line", "short", "another one"} {
		p.Update(text(l))
		if s.current() != l || len(s.lines) != 0 {
			t.Errorf("shows %q after %q, wanted %q", s.current(), s.lines, l)
		}
		*now = now.Add(redraw)
	}
	p.Close()
	if len(s.lines) != 1 || s.lines[0] != "another one" || s.current() != "" {
		t.Errorf("left %q and %q", s.lines, s.current())
	}
}

func TestTerminalIsThrottled(t *testing.T) {
	p, s, now := newTerminal(t, 40)
	for i := range 1000 { // one second, in steps of a millisecond
		p.Update(text(fmt.Sprint("step ", i)))
		*now = now.Add(time.Millisecond)
	}
	if s.draws != 10 {
		t.Errorf("%d drawings in a second, wanted 10", s.draws)
	}
	if s.current() != "step 900" {
		t.Errorf("shows %q", s.current())
	}
	p.Close() // must show the last status, which was held back
	if s.lines[0] != "step 999" {
		t.Errorf("left %q", s.lines)
	}
}

func TestTerminalPrintsLinesAboveTheStatus(t *testing.T) {
	p, s, _ := newTerminal(t, 40)
	p.Printf("before any status")
	p.Update(text("a status that is long"))
	p.Printf("saved %s", "ckpt")
	log.New(p, "", 0).Print("from a logger")
	if s.current() != "a status that is long" {
		t.Errorf("status %q", s.current())
	}
	p.Close()
	p.Printf("after")
	want := []string{"before any status", "saved ckpt", "from a logger", "a status that is long", "after"}
	if got := strings.Join(s.lines, "|"); got != strings.Join(want, "|") || s.current() != "" {
		t.Errorf("lines %s, then %q", got, s.current())
	}
}

func TestTerminalNeverWraps(t *testing.T) {
	for width := 1; width < 120; width++ {
		p, s, now := newTerminal(t, width+60)
		p.Update(full.Line())
		s.width = width // the window becomes narrower; the terminal folds the old line
		s.row = nil
		p.columns = 0
		*now = now.Add(time.Second)
		p.Update(full.Line())
		p.Close()
	}
}

func TestPlainLinesAtIntervals(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	p := &Printer{out: &b, every: 10 * time.Second, now: func() time.Time { return now }}
	for i := range 25 {
		p.Update(text(fmt.Sprint("step ", i)))
		if i == 3 {
			p.Printf("saved")
		}
		now = now.Add(time.Second)
	}
	p.Close()
	p.Close()
	if got, want := b.String(), "step 0\nsaved\nstep 10\nstep 20\nstep 24\n"; got != want {
		t.Errorf("got %q, wanted %q", got, want)
	}
}

func TestNewOnAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := New(f, 0)
	p.Update(full.Line())
	p.Update(text("second"))
	if n, err := p.Write([]byte("third")); n != 5 || err != nil {
		t.Errorf("Write returned %d, %v", n, err)
	}
	p.Close()
	got, err := os.ReadFile(f.Name())
	if want := full.Line().String() + "\nsecond\nthird\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v, wanted %q", got, err, want)
	}
}

func TestWriteErrorIsReturned(t *testing.T) {
	broken := errors.New("broken pipe")
	p := &Printer{out: writerFunc(func([]byte) (int, error) { return 0, broken }), now: time.Now}
	p.Update(text("x"))
	if _, err := p.Write([]byte("y")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
