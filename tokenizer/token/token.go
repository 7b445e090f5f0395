// Package token is what all kinds of tokenizer share: the interface, the error for a text without a token, streams that
// encode a text in pieces, fingerprints, and how a tokenizer.json of a kind that Hugging Face's format lacks is
// written.
package token

import (
	"errors"
	"fmt"
)

// Tokenizer turns bytes into token ids and back. It is safe for concurrent use.
//
// Decode(Encode(x)) == x for every byte string x that Encode accepts. Bytes and GPT2 accept every byte string.
// Characters accepts text in its alphabet. A tokenizer.json whose vocabulary lacks a byte (GPT-NeoX lacks the 13 bytes
// that never occur in UTF-8) accepts text without that byte; one with a normalizer decodes to the normalized text; one
// that puts a space before the first word decodes to the text with that space, which DecodeText drops; one with an
// unknown token loses the characters that it stands for. DNA has no inverse: it accepts all text and turns unknown
// characters into [UNK].
type Tokenizer interface {
	// Kind is "bytes", "chars", "dna", "gpt2", "bpe", "unigram", "rwkv" or "ids".
	Kind() string

	// VocabSize is one more than the largest id.
	VocabSize() int

	// Encode appends the ids of text to dst. Added tokens of all but bytes and chars, <|endoftext|> among them, are
	// recognized in the text; EncodeOrdinary treats them as plain characters. The tokens that a file puts around every
	// text are not added; EncodeAffixed adds them. If a part of the text has no token, the error is an
	// *EncodeError and dst is returned unchanged.
	Encode(dst []int32, text []byte) ([]int32, error)

	// Decode appends the bytes of ids to dst; those of two lists, one after the other, are those of both. An id that
	// names no token (a model's vocabulary is often padded) appends nothing.
	Decode(dst []byte, ids []int32) []byte

	// EndOfText is the id of the token that ends a document, if there is one: <|endoftext|>, or the vocabulary's
	// equivalent.
	EndOfText() (id int32, ok bool)

	// Fingerprint is a short hexadecimal hash that changes when the encoding of some text would.
	Fingerprint() string

	// Save writes dir/tokenizer.json, from which Load makes an equal tokenizer. It makes dir if needed.
	Save(dir string) error
}

// EncodeError says which part of a text has no token.
type EncodeError struct {
	Offset int64  // in bytes from the start of the text; near it where a tokenizer changes the text before it cuts it
	What   string // for example: character 'ß' (U+00DF) is not in the alphabet of 65 characters
}

// Error says where the text has no token, and why.
func (e *EncodeError) Error() string {
	return fmt.Sprintf("tokenizer: byte offset %d: %s", e.Offset, e.What)
}

// MoveError adds n to the offset of an *EncodeError and returns any other error as it is.
func MoveError(err error, n int64) error {
	var at *EncodeError
	if errors.As(err, &at) {
		at.Offset += n
	}
	return err
}
