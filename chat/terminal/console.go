// Package terminal runs a conversation with a model on a terminal. Lines can be edited and are kept in a history,
// Ctrl-C stops a reply, and commands that start with a slash save, fork and undo.
package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// console is a terminal in raw mode. Lines can be edited and are kept in a history. Ctrl-C arrives as a key: it stops a
// reply or asks to leave.
type console struct {
	in, out *os.File
	term    *term.Terminal
	keys    chan []byte // input; closed at its end
	rest    []byte      // input that Read has not returned yet
	restore func()

	mu     sync.Mutex
	cancel context.CancelFunc // of the running reply; nil between replies

	ctx         context.Context
	interrupted bool // Ctrl-C was typed in the last line
}

const ctrlC = 3

// clearLine replaces Ctrl-C in the input: go to the end of the line, clear it, enter it.
const clearLine = "\x05\x15\r"

// openConsole puts the terminal into raw mode. The console ends with ctx. close must be called.
func openConsole(ctx context.Context, in, out *os.File) (*console, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	c := &console{in: in, out: out, keys: make(chan []byte, 256), ctx: ctx}
	c.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{c, out}, "")
	c.term.History = &history{History: c.term.History}
	c.term.SetBracketedPasteMode(true)
	c.restore = func() {
		c.term.SetBracketedPasteMode(false)
		term.Restore(int(in.Fd()), before)
	}
	go c.listen()
	return c, nil
}

func (c *console) close() { c.restore() }

// history is a history without empty lines.
type history struct{ term.History }

// Add adds a line that is not empty.
func (h *history) Add(line string) {
	if line != "" {
		h.History.Add(line)
	}
}

// listen reads keys for as long as the program runs. During a reply, Ctrl-C stops the reply, and other input is queued
// up to the capacity of c.keys.
func (c *console) listen() {
	defer close(c.keys)
	for {
		buf := make([]byte, 256)
		n, err := c.in.Read(buf)
		switch cancel := c.replying(); {
		case cancel != nil && bytes.IndexByte(buf[:n], ctrlC) >= 0:
			cancel() // input read together with Ctrl-C is lost
		case cancel != nil && len(c.keys) == cap(c.keys), n == 0:
		default:
			select {
			case c.keys <- buf[:n]:
			case <-c.ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *console) replying() context.CancelFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancel
}

// during calls work with a context that Ctrl-C cancels, and reports whether Ctrl-C was typed.
func (c *console) during(work func(ctx context.Context) error) (stopped bool, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	set := func(f context.CancelFunc) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cancel = f
	}
	set(cancel)
	err = work(ctx)
	set(nil)
	return ctx.Err() != nil && c.ctx.Err() == nil, err
}

// Read passes the input to the line editor.
func (c *console) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		select {
		case keys, ok := <-c.keys:
			if !ok {
				return 0, io.EOF
			}
			if bytes.IndexByte(keys, ctrlC) >= 0 {
				c.interrupted, keys = true, []byte(clearLine)
			}
			c.rest = keys
		case <-c.ctx.Done():
			return 0, c.ctx.Err()
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// errStop reports that Ctrl-C was typed at a prompt.
var errStop = errors.New("Ctrl-C")

// line reads a line. pasted reports whether it was pasted, so that more lines may follow.
func (c *console) line(prompt string) (text string, pasted bool, err error) {
	c.interrupted = false
	if width, height, err := term.GetSize(int(c.out.Fd())); err == nil && width > 0 {
		c.term.SetSize(width, height)
	}
	c.term.SetPrompt(prompt)
	text, err = c.term.ReadLine()
	if pasted = errors.Is(err, term.ErrPasteIndicator); pasted {
		err = nil
	}
	if c.interrupted {
		return "", false, errStop
	}
	return text, pasted, err
}

// message reads a message: one line, or lines that end with a backslash and the line after them, or all text between
// """ and """, or pasted lines.
func (c *console) message(prompt string) (string, error) {
	const quote, more = `"""`, "... "
	text, pasted, err := c.line(prompt)
	if err != nil {
		return "", err
	}
	quoted := strings.HasPrefix(strings.TrimSpace(text), quote)
	if quoted {
		text = strings.TrimSpace(text)[len(quote):]
	}
	for {
		switch body, ends := strings.CutSuffix(strings.TrimRight(text, " \t"), quote); {
		case quoted && ends:
			return body, nil
		case quoted, pasted:
			text += "\n"
		default:
			if text, ends = strings.CutSuffix(text, `\`); !ends {
				return text, nil
			}
			text += "\n"
		}
		var next string
		if next, pasted, err = c.line(more); err != nil {
			return "", err
		}
		text += next
	}
}

// write writes to the terminal. It adds carriage returns, as in raw mode a newline does not return to the start of the
// line.
func (c *console) write(text string) error {
	_, err := c.out.WriteString(strings.ReplaceAll(text, "\n", "\r\n"))
	return err
}
