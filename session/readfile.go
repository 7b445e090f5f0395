package session

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// FileReader reads files into a session. It saves the session at intervals, and can resume a file after a crash.
type FileReader struct {
	Session  *Session
	Save     func() error
	Every    time.Duration         // time between saves
	Progress func(read, total int) // tokens of the file
	saved    time.Time
}

// readingMark returns the name of the mark at the start of a file that is being read.
func readingMark(name string) string { return "reading " + name }

// Read reads a text, or the rest of it, and sets a mark with the given name at its end. It reports whether the session
// had already read all of the text.
func (r *FileReader) Read(ctx context.Context, tok tokenizer.Tokenizer, name string, text io.Reader) (old bool,
	err error) {
	var ids []int32
	err = tokenizer.EncodeReader(tok, text, func(more []int32) error {
		ids = append(ids, more...)
		return ctx.Err()
	})
	if err != nil {
		return false, err
	}
	s := r.Session
	if end, ok := s.MarkAt(name); ok && end >= len(ids) && slices.Equal(s.IDs()[end-len(ids):end], ids) {
		return true, nil
	}
	start, begun := s.MarkAt(readingMark(name))
	if !begun {
		start = s.Position()
		s.Mark(readingMark(name))
	} else if part := s.IDs()[start:]; len(part) > len(ids) || !slices.Equal(part, ids[:len(part)]) {
		return false, fmt.Errorf("found another text than the one that the session has started to read; hippo session "+
			"rewind returns to the mark %q", readingMark(name))
	}
	if err := r.ReadIDs(ctx, ids, start); err != nil {
		return false, err
	}
	s.Mark(name)
	s.Unmark(readingMark(name))
	return false, r.Save()
}

// ReadIDs reads those of ids that the session has not read yet, and saves the session at intervals. The first id is at
// position start of the text. The division into several calls of Append changes no bit, since each call ends at a
// multiple of the chunk.
func (r *FileReader) ReadIDs(ctx context.Context, ids []int32, start int) error {
	const pieces = 8
	s := r.Session
	r.saved = time.Now()
	for s.Position() < start+len(ids) {
		at := s.Position()
		end := min(start+len(ids), (at/s.Chunk()+pieces)*s.Chunk())
		err := s.Append(ctx, ids[at-start:end-start])
		r.Progress(s.Position()-start, len(ids))
		if err != nil {
			return err
		}
		if time.Since(r.saved) >= r.Every {
			if err := r.Save(); err != nil {
				return err
			}
			r.saved = time.Now()
		}
	}
	return nil
}
