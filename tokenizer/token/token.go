// Package token contains what all kinds of tokenizers share: the interface, the error for a text without a token,
// streams that encode a text in pieces, fingerprints, and the tokenizer.json for kinds that Hugging Face's format does
// not have.
package token

import (
	"errors"
	"fmt"
)

// Tokenizer converts bytes to token ids and back. It is safe for concurrent use.
//
// Decode(Encode(x)) == x for every byte string x that Encode accepts, with the exceptions below. Bytes and GPT2 accept
// every byte string. Characters accepts text in its alphabet. A tokenizer.json whose vocabulary lacks a byte (GPT-NeoX
// lacks the 13 bytes that never occur in UTF-8) accepts text without that byte. A tokenizer with a normalizer decodes
// to the normalized text. One that inserts a space before the first word decodes to the text with that space, which
// DecodeText drops. One with an unknown token loses the characters that the token replaces. DNA has no inverse: it
// accepts all text and converts unknown characters to [UNK].
type Tokenizer interface {
	// Kind returns "bytes", "chars", "dna", "gpt2", "bpe", "unigram", "rwkv" or "ids".
	Kind() string

	// VocabSize returns the largest id plus one.
	VocabSize() int

	// Encode appends the ids of text to dst. All tokenizers except bytes and chars recognize added tokens such as
	// <|endoftext|> in the text. EncodeOrdinary treats them as plain characters. Encode does not add the tokens that a
	// file puts around every text. EncodeAffixed adds them. If a part of the text has no token, the error is an
	// *EncodeError and dst is returned unchanged.
	Encode(dst []int32, text []byte) ([]int32, error)

	// Decode appends the bytes of ids to dst. The bytes of two concatenated lists are those of the first followed by
	// those of the second. Ids without a token (a model's vocabulary is often padded) append nothing.
	Decode(dst []byte, ids []int32) []byte

	// EndOfText returns the id of the token that ends a document, if there is one: <|endoftext|>, or the vocabulary's
	// equivalent.
	EndOfText() (id int32, ok bool)

	// Fingerprint returns a short hexadecimal hash that changes if the encoding of any text would change.
	Fingerprint() string

	// Save writes dir/tokenizer.json, from which Load makes an equal tokenizer. It creates dir if needed.
	Save(dir string) error
}

// EncodeError reports that a part of a text has no token.
type EncodeError struct {
	Offset int64  // in bytes from the start of the text; approximate if a tokenizer first changes the text
	What   string // for example: character 'ß' (U+00DF) is not in the alphabet of 65 characters
}

// Error returns the position in the text and the reason.
func (e *EncodeError) Error() string {
	return fmt.Sprintf("tokenizer: byte offset %d: %s", e.Offset, e.What)
}

// MoveError adds n to the offset of an *EncodeError and returns any other error unchanged.
func MoveError(err error, n int64) error {
	var at *EncodeError
	if errors.As(err, &at) {
		at.Offset += n
	}
	return err
}
