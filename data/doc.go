// Package data turns text into batches of tokens: corpora (files, folders, globs, standard input, compressed files,
// JSONL), token files (tokenized once, memory-mapped, cached), splits, batches with a saved cursor, and an n-gram
// baseline to compare a language model with.
//
// The flow of data:
//
//	Open(specs) → *Corpus                    what to read, checked and hashed
//	Tokenize(ctx, corpus, encoder) → *Tokens token ids, from the cache where it holds them
//	Tokens.Split(0.1) → train, valid         two views of the same ids
//	NewLoader(train) → Next(inputs, targets) batches to train on; Cursor and Seek to resume
//	Windows(valid)                           batches to evaluate on, each target once
//
// A corpus is never in memory (with CacheNone its tokens are): text is streamed, tokens are memory-mapped, the shuffle
// is computed. The same data, options and seed yield the same batches, bit for bit, on every machine.
//
// This package does not import package tokenizer, but uses tokenizers through the interfaces Encoder, StreamEncoder and
// Decoder. The token file format HIPPOTOK is defined in tokenfile.go.
package data

import "io"

// Encoder is the part of a tokenizer that Tokenize needs.
type Encoder interface {
	// Encode appends the ids of text to dst.
	Encode(dst []int32, text []byte) ([]int32, error)
	// Fingerprint returns a string that differs between any two tokenizers that could encode some text differently.
	Fingerprint() string
	// VocabSize returns one more than the largest id.
	VocabSize() int
	// EndOfText returns the id put between documents, if the tokenizer has one.
	EndOfText() (int32, bool)
}

// StreamEncoder is an Encoder that reads a whole document as a stream and knows where it may be cut. For other encoders
// Tokenize cuts large documents itself, see cut.
type StreamEncoder interface {
	EncodeReader(r io.Reader, emit func([]int32) error) error
}

// Decoder is an Encoder that can return the text of an id. With a Decoder the bytes of text of any part of the tokens
// are exact. For other encoders see Tokens.Bytes.
type Decoder interface {
	// Decode appends the bytes of ids to dst.
	Decode(dst []byte, ids []int32) []byte
}
