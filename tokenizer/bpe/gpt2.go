package bpe

import (
	_ "embed"
	"encoding/binary"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"sync"
)

// gpt2Merges holds the 50,000 merges of GPT-2, by rank, as pairs of ids: two little-endian 16-bit numbers each. Ids 0
// to 255 are the bytes in the order of pretokenize.ByteOrder, id 256 + rank is the result of a merge. So the merges
// determine the tokens. NOTICE names their origin.
//
//go:generate go run gen/main.go
//go:embed gpt2.merges
var gpt2Merges []byte

// gpt2EndOfText is the last id of GPT-2.
const gpt2EndOfText = 50256

var loadGPT2 = sync.OnceValue(func() *Tokenizer {
	t, err := New(gpt2Spec())
	if err != nil {
		panic(err) // the input is constant
	}
	return t
})

// gpt2Spec returns the vocabulary and merges of GPT-2.
func gpt2Spec() Spec {
	spec := Spec{Type: "gpt2", Patterns: []string{regex.GPT2Pattern}}
	for id, b := range pretokenize.ByteOrder {
		spec.ByteID[b] = int32(id)
		spec.Tokens = append(spec.Tokens, string([]byte{b}))
	}
	for data := gpt2Merges; len(data) > 0; data = data[4:] {
		pair := [2]int32{int32(binary.LittleEndian.Uint16(data)), int32(binary.LittleEndian.Uint16(data[2:]))}
		spec.Merges = append(spec.Merges, pair)
		spec.Results = append(spec.Results, int32(len(spec.Tokens)))
		spec.Tokens = append(spec.Tokens, spec.Tokens[pair[0]]+spec.Tokens[pair[1]])
	}
	spec.Added = []added.Token{{ID: gpt2EndOfText, Content: token.EndOfTextToken, Special: true}}
	spec.Tokens = append(spec.Tokens, token.EndOfTextToken)
	return spec
}

// GPT2 returns the tokenizer of GPT-2 and of the published H3 models. It has 50,257 tokens, of which 50256 is
// <|endoftext|>. The first call takes a few milliseconds to build its tables.
func GPT2() token.Tokenizer { return loadGPT2() }
