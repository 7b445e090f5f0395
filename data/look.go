package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// look holds statistics of a sample of a file: its beginning, and a piece of every further megabyte.
type look struct {
	// the recognized format other than text, such as "UTF-16LE" or "a PDF"; "" if none
	Kind    string `json:"kind,omitempty"`
	Sampled int64  `json:"sampled"` // bytes
	NULs    int64  `json:"nuls"`
	Control int64  `json:"control"` // other control characters that text does not have
	Invalid int64  `json:"invalid"` // bytes that are not UTF-8
}

// Sizes of samples in bytes: the one at the start of a file, and those at intervals.
const (
	sampleHead  = 1 << 16
	samplePiece = 1 << 12
	sampleEvery = 1 << 20
)

// Text has hardly any control characters and no invalid UTF-8. A sample beyond these limits is not text, or text in an
// older encoding.
const (
	fewest      = 8 // bytes; fewer are not significant, as in a short text
	mostNULs    = 0.01
	mostControl = 0.05
	mostInvalid = 0.02
)

// magics lists the first bytes of other kinds of files.
var magics = []struct{ start, kind string }{
	{"\x1f\x8b", "a gzip file (want its name to end in .gz)"},
	{"\x28\xb5\x2f\xfd", "a zstd file (want its name to end in .zst)"},
	{"BZh", "a bzip2 file"},
	{"\xfd7zXZ\x00", "an xz file"},
	{"PK\x03\x04", "a zip file, as .docx, .xlsx, .odt and .epub files are"},
	{"%PDF-", "a PDF"},
	{"\x89PNG\r\n", "a picture (PNG)"},
	{"\xff\xd8\xff", "a picture (JPEG)"},
	{"\x7fELF", "a program (ELF)"},
	{"SQLite format 3\x00", "a database (SQLite)"},
}

// begin examines the first bytes of a file.
func (l *look) begin(head []byte) {
	head = head[:min(len(head), sampleHead)]
	for _, m := range magics {
		// bzip2's magic is so short that it could begin a text, but not together with the bytes that follow it.
		if bytes.HasPrefix(head, []byte(m.start)) &&
			(m.start != "BZh" || len(head) > 10 && bytes.HasPrefix(head[4:], []byte("1AY&SY"))) {
			l.Kind = m.kind
		}
	}
	l.add(head)
	if l.Kind == "" {
		l.Kind = wideEncoding(head, l.odd())
	}
}

// add adds a piece of a file to the statistics. Its first and last bytes may be parts of characters.
func (l *look) add(piece []byte) {
	l.Sampled += int64(len(piece))
	for i := 0; i < len(piece); {
		b := piece[i]
		switch {
		case b == 0:
			l.NULs++
		// \a to \r, escape, end of file
		case b < ' ' && !('\a' <= b && b <= '\r') && b != 0x1b && b != 0x1a || b == 0x7f:
			l.Control++
		}
		if b < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(piece[i:])
		edge := i < utf8.UTFMax || len(piece)-i < utf8.UTFMax
		if r == utf8.RuneError && size == 1 && !edge {
			l.Invalid++
		}
		i += size
	}
}

// part returns n as a fraction of the sampled bytes.
func (l *look) part(n int64) float64 { return float64(n) / float64(max(1, l.Sampled)) }

// odd reports whether the sample has bytes that are rare in UTF-8 text.
func (l *look) odd() bool {
	return l.binary() || l.Invalid >= fewest && l.part(l.Invalid) > mostInvalid
}

// binary reports whether there are more control characters in the sample than text has.
func (l *look) binary() bool {
	return l.NULs >= fewest && l.part(l.NULs) > mostNULs || l.Control >= fewest && l.part(l.Control) > mostControl
}

// wideEncoding recognizes UTF-16 and UTF-32 by the byte order mark or, if the bytes are odd for UTF-8, UTF-16 by
// decoding them in both byte orders: one must give text.
func wideEncoding(head []byte, odd bool) string {
	le, be := binary.ByteOrder(binary.LittleEndian), binary.ByteOrder(binary.BigEndian)
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe, 0, 0}):
		return "UTF-32LE"
	case bytes.HasPrefix(head, []byte{0, 0, 0xfe, 0xff}):
		return "UTF-32BE"
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		return "UTF-16LE"
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return "UTF-16BE"
	case !odd || len(head) < 8:
		return ""
	}
	asLE, asBE := textShare(head, le), textShare(head, be)
	switch {
	case asLE >= asBE && asLE > leastText:
		return "UTF-16LE"
	case asBE > asLE && asBE > leastText:
		return "UTF-16BE"
	}
	return ""
}

// leastText is the least fraction of UTF-16 code units that are letters, marks, digits, punctuation or spaces in text.
// In random units it is about four fifths.
const leastText = 0.97

// textShare returns the fraction of the characters, decoded from UTF-16, that are printable or white space. It returns
// 0 if there are no blanks and no Chinese or Japanese punctuation, which any text has.
func textShare(b []byte, order binary.ByteOrder) float64 {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = order.Uint16(b[2*i:])
	}
	good, plain := 0, 0
	runes := utf16.Decode(units)
	for _, r := range runes {
		switch {
		case r == ' ' || r == '\n' || r == '\r' || r == '\t' || r == '\u3000' ||
			'\u3001' <= r && r <= '\u3002' || r == '\uff0c':
			plain++
			good++
		case r != unicode.ReplacementChar && unicode.IsPrint(r):
			good++
		}
	}
	if plain == 0 {
		return 0
	}
	return float64(good) / float64(max(1, len(runes)))
}

// notText describes a file that is not UTF-8 text, and how to convert it. It returns "" for text.
func (l *look) notText() string {
	switch {
	case len(l.Kind) > 4 && l.Kind[:4] == "UTF-":
		return fmt.Sprintf("looks like %s: convert it with iconv -f %s -t UTF-8", l.Kind, l.Kind)
	case l.Kind != "":
		return "looks like " + l.Kind
	case l.binary():
		return fmt.Sprintf("looks like a binary file: %.0f%% of its bytes are control characters: is this text?",
			max(1, 100*l.part(l.NULs+l.Control)))
	}
	return ""
}

// remark returns a note on data that is accepted although it does not look like text, or "".
func (l *look) remark() string {
	switch {
	case l.notText() != "":
		return l.notText()
	case l.odd():
		return fmt.Sprintf("%.0f%% of its bytes are not UTF-8: text of an older encoding, "+
			"such as WINDOWS-1252 or GB18030, is converted with iconv -f WINDOWS-1252 -t UTF-8",
			max(1, 100*l.part(l.Invalid)))
	}
	return ""
}
