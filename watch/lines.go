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

// Place is the position of a stream in its file.
type Place struct {
	Offset int64 `json:"offset,omitempty"` // in bytes
	// Head is a hash of the first bytes of the file, those before Offset but at most headBytes. It detects another file
	// with the same name, which is read from its start.
	Head string `json:"head,omitempty"`
}

const headBytes = 1024

// pollEvery is the interval at which a followed file is polled.
const pollEvery = 200 * time.Millisecond

// Reader splits streams into lines and sends them to a channel.
type Reader struct {
	MaxLine int // maximum number of bytes of a line that are kept
	Follow  bool
	Note    func(text string) // called when a file was replaced, was truncated or does not exist
	Lines   chan<- Line
}

// lineReader reads lines and keeps the first most bytes of each.
type lineReader struct {
	in   *bufio.Reader
	most int
	line []byte // the current line, as far as it is kept
	cut  int64
	read int64 // bytes of the current line
}

// next reads the current line to its end. At the end of the input it returns io.EOF; the line then lacks a newline, and
// a later call may read more of it.
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

// take returns the current line and its length in the input, and starts the next line.
func (r *lineReader) take(s *Stream) (l Line, bytes int64) {
	l, bytes = Line{Stream: s, Text: append([]byte(nil), r.line...), Cut: r.cut}, r.read
	r.line, r.cut, r.read = r.line[:0], 0, 0
	return l, bytes
}

// send sends a line to the channel.
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

// File reads a file from a place to its end, or follows it like tail -F. A truncated file is read from its start. A
// file that is replaced by another is first read to its end.
func (r *Reader) File(ctx context.Context, s *Stream, path string, from Place) error {
	for {
		f, err := r.open(ctx, path)
		if err != nil {
			return err
		}
		err = r.through(ctx, s, f, path, from)
		f.Close() // the error does not matter after reading
		if err != nil || !r.Follow {
			return err
		}
		from = Place{}
	}
}

// open opens a file. With Follow, it waits until the file exists.
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

// through reads an open file to its end or, with Follow, until the file is truncated or its name belongs to another
// file.
func (r *Reader) through(ctx context.Context, s *Stream, f *os.File, path string, from Place) error {
	head, at, err := resume(f, from)
	if err != nil {
		return err
	}
	if at < from.Offset {
		r.Note(fmt.Sprintf("%s is another file than before, or shorter; reading it from its start", path))
	}
	lines := r.lines(io.TeeReader(f, head))
	last := false // the file was removed or replaced, so its end is final
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

// head holds the first bytes of a file.
type head struct {
	bytes []byte
	done  string // hash of the first headBytes bytes, once known
}

// Write stores the first bytes.
func (h *head) Write(p []byte) (int, error) {
	if n := min(len(p), headBytes-len(h.bytes)); n > 0 {
		h.bytes = append(h.bytes, p[:n]...)
	}
	return len(p), nil
}

// hash returns the hash of the bytes before an offset, at most the first headBytes.
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

// resume seeks to a place in a file, or to the start if the place belongs to another file or is after the end.
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
