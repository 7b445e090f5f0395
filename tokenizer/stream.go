package tokenizer

import (
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"io"
)

// streamer is implemented by the tokenizers of this package.
type streamer interface {
	NewStream() token.Stream
}

// EncodeReader encodes all of r and passes the ids to emit, piece by piece. Together they are exactly the ids that
// tok.Encode returns for the whole text. emit must not keep the slice. Memory is bounded: a few megabytes, and about 30
// bytes for each byte of a very long word. A word longer than MaxPending is an error. (A Tokenizer from outside this
// package gets the whole text at once.)
func EncodeReader(tok Tokenizer, r io.Reader, emit func(ids []int32) error) error {
	return encodeReader(tok, r, token.FirstRead, emit)
}

func encodeReader(tok Tokenizer, r io.Reader, size int, emit func(ids []int32) error) error {
	own, ok := tok.(streamer)
	if !ok {
		text, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
		ids, err := tok.Encode(nil, text)
		if err != nil {
			return err
		}
		return emit(ids)
	}
	enc := own.NewStream()
	var ids []int32
	return token.ReadPieces(r, size, func(text []byte, last bool) (int, error) {
		var n int
		var err error
		ids, n, err = enc.EncodeChunk(ids[:0], text, last)
		if err != nil || len(ids) == 0 {
			return n, err
		}
		return n, emit(ids)
	})
}

// EncodeOrdinary is like tok.Encode, except that <|endoftext|> and other added tokens in the text are plain characters.
// It is for untrusted text, which must not be able to end a document. (For a Tokenizer from outside this package it is
// the same as tok.Encode.)
func EncodeOrdinary(tok Tokenizer, dst []int32, text []byte) ([]int32, error) {
	t, ok := tok.(interface{ Ordinary() token.Stream })
	if !ok {
		return tok.Encode(dst, text)
	}
	dst, _, err := t.Ordinary().EncodeChunk(dst, text, true)
	return dst, err
}
