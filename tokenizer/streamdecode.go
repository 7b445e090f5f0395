package tokenizer

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// StreamDecoder decodes ids that arrive one at a time to text that can be displayed immediately: it never returns part
// of a character. Each byte that is not UTF-8 becomes U+FFFD, as in Go's conversion of a string to runes, as soon as
// that is certain. So the concatenated results of Write and Flush are string([]rune(decoded)) for the decoded bytes of
// all ids.
//
// A StreamDecoder is for one sequence. It is not safe for concurrent use.
type StreamDecoder struct {
	tok     Tokenizer
	pending []byte // start of a character, at most 3 bytes between calls
	out     []byte
}

// NewStreamDecoder returns a decoder of ids of tok.
func NewStreamDecoder(tok Tokenizer) *StreamDecoder { return &StreamDecoder{tok: tok} }

// Write decodes the next id and returns the characters that are complete now, possibly none. The slice is valid until
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

// Pending returns a copy of the bytes of an incomplete character, for Restore.
func (d *StreamDecoder) Pending() []byte { return bytes.Clone(d.pending) }

// Restore sets the pending bytes of a new decoder to the result of Pending, so that it continues from there.
func (d *StreamDecoder) Restore(pending []byte) error {
	if len(pending) > 0 && utf8.FullRune(pending) {
		return fmt.Errorf("tokenizer: found %q pending, want the beginning of a character", pending)
	}
	d.pending = bytes.Clone(pending)
	return nil
}

// take moves characters from pending to out as long as full reports that the first one is complete.
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

// DecodeText is like tok.Decode, for ids at the start of a text: it drops the space that tokenizers with Metaspace and
// those of SentencePiece insert before the first word. Decode keeps it, because elsewhere it is a space of the text.
func DecodeText(tok Tokenizer, dst []byte, ids []int32) []byte {
	if t, ok := tok.(interface {
		DecodeText(dst []byte, ids []int32) []byte
	}); ok {
		return t.DecodeText(dst, ids)
	}
	return tok.Decode(dst, ids)
}
