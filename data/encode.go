package data

import (
	"bytes"
	"io"
)

// encodeBuffer is the size of the text passed to Encode at once. It is a variable so that tests can cut small texts.
var encodeBuffer = 1 << 20

// encodeDocument encodes the document in r and passes its ids to emit, in order. The slice passed to emit is reused.
func encodeDocument(enc Encoder, r io.Reader, emit func([]int32) error) error {
	if s, ok := enc.(StreamEncoder); ok {
		return s.EncodeReader(r, emit)
	}
	buf := make([]byte, encodeBuffer)
	var ids []int32
	have := 0
	for {
		n, err := io.ReadFull(r, buf[have:])
		have += n
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return err
		}
		end := have
		if !last {
			end = cut(buf)
		}
		if ids, err = enc.Encode(ids[:0], buf[:end]); err != nil {
			return err
		}
		if err := emit(ids); err != nil {
			return err
		}
		if last {
			return nil
		}
		have = copy(buf, buf[end:])
	}
}

// cut returns the number of bytes, at least one, after which to cut a text of which only the start, b, is known.
//
// The cut is at the last line end after a letter or digit, so that the line break begins the next part; else at the
// last line end not after white space; else at the last space not after white space; else at the last border between
// UTF-8 characters. A cut is exact if the ids are the same as for the text in one piece. The first kind of cut is exact
// for the pre-tokenizers of GPT-2, GPT-4 and Llama 3, as none of their pieces continues from a letter or digit into
// white space. The next two are exact for GPT-2's, except for white space outside ASCII. Any cut is exact for a
// tokenizer of bytes or characters. Other tokenizers should be StreamEncoders.
func cut(b []byte) int {
	lineEnd, space := 0, 0
	for i := len(b) - 1; i > 0; i-- {
		if !isSpace(b[i]) || isSpace(b[i-1]) {
			continue
		}
		if b[i] == '\n' || b[i] == '\r' {
			if isAlnum(b[i-1]) {
				return i
			}
			lineEnd = max(lineEnd, i)
		}
		space = max(space, i)
	}
	switch {
	case lineEnd > 0:
		return lineEnd
	case space > 0:
		return space
	}
	return charBorder(b)
}

// charBorder returns the last position in b, except its start, that does not split a UTF-8 character, or len(b) if
// there is none.
func charBorder(b []byte) int {
	if n := len(b) - cutOff(b); n > 0 {
		return n
	}
	return len(b)
}

func isSpace(c byte) bool { return bytes.IndexByte([]byte(" \t\n\v\f\r"), c) >= 0 }

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
