package table

import (
	"bufio"
	"bytes"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// peekSize is the number of bytes of a file that are inspected before it is read.
const peekSize = 64 << 10

// peek returns the start of the data of r: what is available at once, and at least a whole line unless that is longer
// than peekSize. It does not wait for more from a pipe.
func peek(r *bufio.Reader) []byte {
	for n := 1; ; {
		head, err := r.Peek(n)
		head, _ = r.Peek(max(len(head), r.Buffered()))
		if err != nil || bytes.IndexByte(head, '\n') >= 0 || len(head) >= peekSize {
			return head
		}
		n = len(head) + 1
	}
}

// textReader returns the text of a file as UTF-8. Bytes that are not UTF-8 are read as Windows-1252, which contains
// Latin-1, so files with mixed encodings are read as intended. Binary data is an error.
func textReader(file *Input, encoding string) (*patcher, error) {
	in := file.R
	head := peek(in)
	p := &patcher{}
	if kind := kindOf(head); kind != "" {
		return nil, fmt.Errorf("%s: found %s, want text", file.Name, kind)
	}
	switch {
	case encoding == "windows-1252":
		p.r = bufio.NewReaderSize(charmap.Windows1252.NewDecoder().Reader(in), peekSize)
		return p, nil
	case encoding == "utf-16" || encoding == "auto" && looksUTF16(head):
		order := unicode.LittleEndian
		if zeros(head, 0) > zeros(head, 1) {
			order = unicode.BigEndian
		}
		decoder := unicode.UTF16(order, unicode.UseBOM).NewDecoder()
		p.r = bufio.NewReaderSize(decoder.Reader(in), peekSize)
		if encoding == "auto" {
			p.notes = append(p.notes, "the text is read as UTF-16")
		}
		return p, nil
	}
	if n := controls(head); n >= 8 && 100*n > len(head) {
		return nil, fmt.Errorf("%s: found %d control characters in the first %d bytes, want text", file.Name, n,
			len(head))
	}
	if bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")) {
		_, _ = in.Discard(3) // they have been peeked at
	}
	p.r, p.patch = in, true
	return p, nil
}

// kinds lists the magic bytes of binary files with descriptions.
var kinds = []struct{ begin, kind string }{
	{"PK\x03\x04", "a ZIP archive, or a document stored as one (unpack it, or save it as CSV)"},
	{"\x1F\x8B", "a file that gzip has compressed (its name should end with .gz)"},
	{"BZh", "a file that bzip2 has compressed (unpack it)"},
	{"\xFD7zXZ", "a file that xz has compressed (unpack it)"},
	{"\x28\xB5\x2F\xFD", "a file that zstd has compressed (unpack it)"},
	{"7z\xBC\xAF", "a 7z archive (unpack it)"},
	{"PAR1", "a Parquet file (--format parquet)"},
	{"\xD0\xCF\x11\xE0", "an old file of Office (save it as CSV)"},
	{"SQLite format 3", "a database (write its rows as CSV)"},
	{"%PDF-", "a PDF"},
}

// kindOf describes a binary file. It returns "" if the file may be text.
func kindOf(head []byte) string {
	for _, k := range kinds {
		if bytes.HasPrefix(head, []byte(k.begin)) {
			return k.kind
		}
	}
	return ""
}

// controls counts control characters that do not occur in text.
func controls(head []byte) (n int) {
	for _, c := range head {
		if c < ' ' && (c < '\t' || c > '\r') && c != 0x1B {
			n++
		}
	}
	return n
}

// looksUTF16 reports whether a text starts with a byte-order mark of UTF-16, or every second byte is mostly 0.
func looksUTF16(head []byte) bool {
	if bytes.HasPrefix(head, []byte("\xFF\xFE")) || bytes.HasPrefix(head, []byte("\xFE\xFF")) {
		return true
	}
	even, odd := zeros(head, 0), zeros(head, 1)
	return len(head) >= 8 && max(even, odd) > len(head)*3/8 && min(even, odd) < len(head)/16
}

func zeros(text []byte, from int) (n int) {
	for i := from; i < len(text); i += 2 {
		if text[i] == 0 {
			n++
		}
	}
	return n
}

// patcher reads text and converts bytes that are not UTF-8 from Windows-1252.
type patcher struct {
	r       *bufio.Reader
	patch   bool
	waiting []byte // characters that did not fit into p
	rest    []byte // incomplete character
	patched int
	line    int64 // line of the first converted byte, from 1
	lines   int64
	notes   []string
	buffer  []byte
	err     error
}

// Notes reports how many bytes were not UTF-8.
func (p *patcher) Notes() []string {
	if p.patched == 0 {
		return p.notes
	}
	return append(p.notes, fmt.Sprintf("%d bytes that are not UTF-8 are read as Windows-1252, the first in line %d",
		p.patched, p.line))
}

func (p *patcher) Read(to []byte) (int, error) {
	if !p.patch {
		return p.r.Read(to)
	}
	for len(p.waiting) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		if p.buffer == nil {
			p.buffer = make([]byte, 32<<10)
		}
		left := copy(p.buffer, p.rest)
		n, err := p.r.Read(p.buffer[left:])
		p.err = err
		p.take(p.buffer[:left+n], err != nil)
	}
	n := copy(to, p.waiting)
	p.waiting = p.waiting[n:]
	return n, nil
}

// take queues text to be read. An incomplete character at its end is kept for the next call, unless it is the last
// text.
func (p *patcher) take(text []byte, last bool) {
	p.rest = p.rest[:0]
	if utf8.Valid(text) {
		p.lines += int64(bytes.Count(text, []byte{'\n'}))
		p.waiting = text
		return
	}
	var out []byte
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r != utf8.RuneError || size > 1:
			out = append(out, text[i:i+size]...)
		case !last && !utf8.FullRune(text[i:]):
			p.rest = append(p.rest, text[i:]...)
			p.waiting = out
			return
		default:
			if p.patched++; p.patched == 1 {
				p.line = p.lines + 1
			}
			out = utf8.AppendRune(out, charmap.Windows1252.DecodeByte(text[i]))
		}
		if text[i] == '\n' {
			p.lines++
		}
		i += size
	}
	p.waiting = out
}

// errTooLong reports that a row is longer than maxRow.
type errTooLong struct{}

func (errTooLong) Error() string {
	return fmt.Sprintf("found a row of more than %d MB, want shorter ones: is a quote not closed?", maxRow>>20)
}

// maxRow is the maximum length of a row of text, in bytes: an unclosed quote makes the rest of a file one row.
const maxRow = 16 << 20
