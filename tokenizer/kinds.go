package tokenizer

import (
	"io"

	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/chars"
	"github.com/hippo-ssm/hippo/tokenizer/token"
)

// Names of package token that users of this package need.
type (
	Tokenizer   = token.Tokenizer
	EncodeError = token.EncodeError
)

const (
	EndOfTextToken = token.EndOfTextToken
	FileName       = token.FileName
	MaxPending     = token.MaxPending
)

// Bytes returns the tokenizer whose 256 tokens are the bytes. It has no end-of-text token.
func Bytes() Tokenizer { return chars.Bytes() }

// DNA returns the character tokenizer of HyenaDNA: see chars.DNA.
func DNA() Tokenizer { return chars.DNA() }

// IDs returns a tokenizer of decimal ids that replaces a missing tokenizer: see chars.IDs.
func IDs(vocab int) Tokenizer { return chars.IDs(vocab) }

// Characters returns the tokenizer whose tokens are the characters that occur in the corpus: see chars.Characters.
func Characters(corpus io.Reader) (Tokenizer, error) { return chars.Characters(corpus) }

// GPT2 returns the tokenizer of GPT-2 and of the published H3 models: see bpe.GPT2.
func GPT2() Tokenizer { return bpe.GPT2() }

// Affixes returns the ids that the tokenizer's file puts before and after a text: see token.Affixes.
func Affixes(tok Tokenizer) (before, after []int32) { return token.Affixes(tok) }

// WriteFile writes the content of Save to a file with any name.
func WriteFile(path string, tok Tokenizer) error { return token.WriteFile(path, tok) }
