// Package status shows the progress of a long run: on a terminal one line that is rewritten in place, otherwise plain
// lines for a log. It has helpers for such lines: readable numbers, sizes and durations, the memory in use, and a curve
// in characters.
//
// The line uses only carriage returns and spaces, no color and no escape sequence, so that NO_COLOR (no-color.org) is
// respected and every Windows console works.
package status

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// redraw is the shortest time between two drawings on a terminal.
const redraw = 100 * time.Millisecond

// A Printer prints a changing status, and permanent lines, to one file. It is safe for concurrent use. Failed writes
// are ignored: a run does not stop because nobody watches it.
type Printer struct {
	mu    sync.Mutex
	out   io.Writer
	width func() int // columns of the terminal; nil if out is not one
	every time.Duration
	now   func() time.Time

	line    Line      // the latest status
	dirty   bool      // line is newer than what has been shown
	shown   time.Time // when a status was shown last
	columns int       // columns of the drawn status, which has to be cleared before other text
}

// New returns a printer to f, usually os.Stderr. If f is not a terminal, a status line is printed at most once in the
// given interval; 0 prints every status.
func New(f *os.File, every time.Duration) *Printer {
	p := &Printer{out: f, every: every, now: time.Now}
	if fd := int(f.Fd()); term.IsTerminal(fd) {
		p.every = redraw
		p.width = func() int {
			width, _, err := term.GetSize(fd) // each time, because the window may change
			if err != nil || width <= 0 {
				return 80
			}
			return width
		}
	}
	return p
}

// Update makes l the status. It is shown unless one was shown a moment ago; then a later call shows the newest.
func (p *Printer) Update(l Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line, p.dirty = l, true
	if p.shown.IsZero() || p.now().Sub(p.shown) >= p.every {
		p.show()
	}
}

// Printf prints a permanent line above the status.
func (p *Printer) Printf(format string, args ...any) {
	fmt.Fprintf(p, format, args...)
}

// Write prints permanent text above the status, and adds a newline if it does not end in one. So a Printer can be the
// writer of a logger.
func (p *Printer) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	n, err := p.out.Write(text)
	if err == nil && len(text) > 0 && text[len(text)-1] != '\n' {
		_, err = io.WriteString(p.out, "\n")
	}
	if p.width != nil && p.line != nil {
		p.show()
	}
	return n, err
}

// Close shows the latest status, if it has not been shown, and leaves it on the screen. The printer can be used again
// afterwards.
func (p *Printer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty {
		p.show()
	}
	if p.columns > 0 {
		io.WriteString(p.out, "\n")
	}
	p.line, p.columns, p.shown = nil, 0, time.Time{}
}

// show prints the status, on a terminal over the previous one.
func (p *Printer) show() {
	p.shown, p.dirty = p.now(), false
	if p.width == nil {
		io.WriteString(p.out, p.line.String()+"\n")
		return
	}
	text := p.line.Fit(p.width() - 1) // a full last column would wrap on some terminals
	columns := len([]rune(text))
	io.WriteString(p.out, "\r"+text+spaces(p.columns-columns))
	p.columns = columns
}

// clear removes the status from the terminal.
func (p *Printer) clear() {
	if p.columns > 0 {
		io.WriteString(p.out, "\r"+spaces(p.columns)+"\r")
		p.columns = 0
	}
}

func spaces(n int) string { return strings.Repeat(" ", max(n, 0)) }
