package tokenizer

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// StreamDecoder turns ids that come one at a time into text that can be shown at once: it never returns part of a
// character. Each byte that is not UTF-8 becomes U+FFFD, as in Go's conversion of a string to runes, as soon as that is
// certain. So the concatenated results of Write and Flush are string([]rune(decoded)) for the decoded bytes of all ids.
//
// One StreamDecoder serves one sequence; it is not safe for concurrent use.
type StreamDecoder struct {
	tok     Tokenizer
	pending []byte // the start of a character, at most 3 bytes between calls
	out     []byte
}

// NewStreamDecoder returns a decoder of ids of tok.
func NewStreamDecoder(tok Tokenizer) *StreamDecoder { return &StreamDecoder{tok: tok} }

// Write takes the next id and returns the characters that are complete now, possibly none. The slice is valid until
// the next call.
func (d *StreamDecoder) Write(id int32) []byte {
	d.pending = d.tok.Decode(d.pending, []int32{id})
	return d.take(utf8.FullRune)
}

// Flush returns the rest of an incomplete character, one U+FFFD for each byte. The decoder can then be used for a new
// text.
func (d *StreamDecoder) Flush() []byte {
	return d.take(func([]byte) bool { return true })
}

// Pending returns a copy of the bytes of a character that is not complete, for Restore.
func (d *StreamDecoder) Pending() []byte { return bytes.Clone(d.pending) }

// Restore makes a new decoder continue from the point of Pending.
func (d *StreamDecoder) Restore(pending []byte) error {
	if len(pending) > 0 && utf8.FullRune(pending) {
		return fmt.Errorf("tokenizer: found %q pending, want the beginning of a character", pending)
	}
	d.pending = bytes.Clone(pending)
	return nil
}

// take moves characters from pending to out while full says that the first one is settled.
func (d *StreamDecoder) take(full func([]byte) bool) []byte {
	d.out = d.out[:0]
	i := 0
	for i < len(d.pending) && full(d.pending[i:]) {
		r, size := utf8.DecodeRune(d.pending[i:]) // U+FFFD of size 1 for a byte that is not UTF-8
		d.out = utf8.AppendRune(d.out, r)
		i += size
	}
	d.pending = d.pending[:copy(d.pending, d.pending[i:])]
	return d.out
}

// DecodeText is tok.Decode for ids that start a text: it drops the space that a tokenizer puts before the first word,
// as those with Metaspace and those of SentencePiece do. Decode keeps it, because between ids it is the space of the
// text.
func DecodeText(tok Tokenizer, dst []byte, ids []int32) []byte {
	if t, ok := tok.(interface {
		DecodeText(dst []byte, ids []int32) []byte
	}); ok {
		return t.DecodeText(dst, ids)
	}
	return tok.Decode(dst, ids)
}
