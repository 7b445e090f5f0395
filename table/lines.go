package table

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lines reads lines of text that are not empty.
type lines struct {
	r    *bufio.Reader
	line int64 // number of the last line, from 1
	text []byte
}

func newLines(r io.Reader) lines { return lines{r: bufio.NewReaderSize(r, peekSize)} }

// next returns the next line that is not empty, without surrounding spaces. Longer lines than limit bytes are an error.
// The line is valid until the next call.
func (l *lines) next(limit int) ([]byte, error) {
	for {
		l.text = l.text[:0]
		for more := true; more; {
			part, err := l.r.ReadSlice('\n')
			if len(l.text)+len(part) > limit {
				return nil, errTooLong{}
			}
			l.text = append(l.text, part...)
			more = errors.Is(err, bufio.ErrBufferFull)
			if err != nil && !more && (err != io.EOF || len(bytes.TrimSpace(l.text)) == 0) {
				return nil, err
			}
		}
		l.line++
		if text := bytes.TrimSpace(l.text); len(text) > 0 {
			return text, nil
		}
	}
}
