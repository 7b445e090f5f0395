package watch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"time"
)

// Place is where a stream is in its file.
type Place struct {
	Offset int64 `json:"offset,omitempty"` // in bytes
	// Head is a hash of the first bytes of the file, up to headBytes of those before Offset: another file of the same
	// name is read from its start.
	Head string `json:"head,omitempty"`
}

const headBytes = 1024

// pollEvery is how often a followed file is looked at.
const pollEvery = 200 * time.Millisecond

// Reader cuts streams into lines and hands them to one goroutine.
type Reader struct {
	MaxLine int // bytes of a line that are kept
	Follow  bool
	Note    func(text string) // a file that was replaced, or has gone
	Lines   chan<- Line
}

// lineReader reads lines, of which it keeps a part each.
type lineReader struct {
	in   *bufio.Reader
	most int
	line []byte // of the current line
	cut  int64
	read int64 // bytes of the current line
}

// next returns the next line. The error io.EOF comes with what follows the last newline; more may be read later.
func (r *lineReader) next() error {
	for {
		part, err := r.in.ReadSlice('\n')
		ended := err == nil
		r.read += int64(len(part))
		body := part
		if ended {
			body = part[:len(part)-1]
		}
		fits := min(len(body), r.most-len(r.line))
		r.line = append(r.line, body[:fits]...)
		r.cut += int64(len(body) - fits)
		if ended {
			r.line = append(r.line, '\n')
			return nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// take returns the current line and begins the next.
func (r *lineReader) take(s *Stream) (l Line, bytes int64) {
	l, bytes = Line{Stream: s, Text: append([]byte(nil), r.line...), Cut: r.cut}, r.read
	r.line, r.cut, r.read = r.line[:0], 0, 0
	return l, bytes
}

// send hands a line over.
func (r *Reader) send(ctx context.Context, l Line) error {
	select {
	case r.Lines <- l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Reader) lines(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10), most: r.MaxLine}
}

// Pipe reads a stream to its end.
func (r *Reader) Pipe(ctx context.Context, s *Stream, in io.Reader) error {
	lines := r.lines(in)
	for {
		err := lines.next()
		if err != nil && lines.read == 0 || err != nil && !errors.Is(err, io.EOF) {
			return unlessEnd(err)
		}
		l, _ := lines.take(s)
		if err := r.send(ctx, l); err != nil {
			return err
		}
	}
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// File reads a file from a place to its end, or follows it, as tail -F does: a file that is truncated is read from its
// start, and one that another replaces is read to its end before that.
func (r *Reader) File(ctx context.Context, s *Stream, path string, from Place) error {
	for {
		f, err := r.open(ctx, path)
		if err != nil {
			return err
		}
		err = r.through(ctx, s, f, path, from)
		f.Close() // it was only read
		if err != nil || !r.Follow {
			return err
		}
		from = Place{}
	}
}

// open opens a file. If it is to be followed, it waits until there is one.
func (r *Reader) open(ctx context.Context, path string) (*os.File, error) {
	for told := false; ; {
		f, err := os.Open(path)
		if err == nil || !r.Follow || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if !told {
			told = true
			r.Note(fmt.Sprintf("%s does not exist; waiting for it", path))
		}
		if err := wait(ctx); err != nil {
			return nil, err
		}
	}
}

func wait(ctx context.Context) error {
	select {
	case <-time.After(pollEvery):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// through reads an open file to its end or, with Follow, until another file has its name.
func (r *Reader) through(ctx context.Context, s *Stream, f *os.File, path string, from Place) error {
	head, at, err := resume(f, from)
	if err != nil {
		return err
	}
	if at < from.Offset {
		r.Note(fmt.Sprintf("%s is another file than before, or shorter; reading it from its start", path))
	}
	lines := r.lines(io.TeeReader(f, head))
	last := false // the file has no name any more: what comes now is its end
	for {
		err := lines.next()
		if err == nil || errors.Is(err, io.EOF) && lines.read > 0 && (last || !r.Follow) {
			l, bytes := lines.take(s)
			at += bytes
			l.Place = Place{at, head.hash(at)}
			if err := r.send(ctx, l); err != nil {
				return err
			}
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if last || !r.Follow {
			return nil
		}
		if err := wait(ctx); err != nil {
			return err
		}
		mine, err := f.Stat()
		if err != nil {
			return err
		}
		named, err := os.Stat(path)
		switch {
		case mine.Size() < at+lines.read:
			r.Note(path + " was truncated; reading it from its start")
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err != nil || !os.SameFile(mine, named):
			last = true
		}
	}
}

// head is the first bytes of a file.
type head struct {
	bytes []byte
	done  string // the hash of all headBytes
}

// Write keeps the first bytes.
func (h *head) Write(p []byte) (int, error) {
	if n := min(len(p), headBytes-len(h.bytes)); n > 0 {
		h.bytes = append(h.bytes, p[:n]...)
	}
	return len(p), nil
}

// hash returns the hash of the first bytes before an offset.
func (h *head) hash(offset int64) string {
	if offset >= headBytes && h.done != "" {
		return h.done
	}
	sum := fnv.New64a()
	sum.Write(h.bytes[:min(offset, int64(len(h.bytes)))])
	text := fmt.Sprintf("%016x", sum.Sum64())
	if offset >= headBytes {
		h.done = text
	}
	return text
}

// resume moves a file to a place in it, or to its start if it is not the file of that place.
func resume(f *os.File, from Place) (*head, int64, error) {
	h := &head{}
	if from.Offset <= 0 {
		return h, 0, nil
	}
	if _, err := io.CopyN(h, f, min(from.Offset, headBytes)); err != nil && !errors.Is(err, io.EOF) {
		return h, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return h, 0, err
	}
	at := from.Offset
	if h.hash(at) != from.Head || info.Size() < at {
		h, at = &head{}, 0
	}
	_, err = f.Seek(at, io.SeekStart)
	return h, at, err
}
