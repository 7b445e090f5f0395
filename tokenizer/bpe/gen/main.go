//go:build ignore

// Command gen writes gpt2.merges from the r50k_base vocabulary of github.com/tiktoken-go/tokenizer. That lists the
// tokens of GPT-2 by rank, but not the two tokens that each was merged from. gen finds these by encoding the token's
// bytes with the merges of lower rank, which leaves the two halves.
//
// Run it with go generate in the folder tokenizer/bpe.
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"os"

	"github.com/tiktoken-go/tokenizer"
)

const (
	numBytes  = 256
	numMerges = 50000
)

func main() {
	log.SetFlags(0)
	codec, err := tokenizer.Get(tokenizer.R50kBase)
	if err != nil {
		log.Fatal(err)
	}
	rank := map[string]int{}
	var out []byte
	for id := range numBytes + numMerges {
		token, err := codec.Decode([]uint{uint(id)})
		if err != nil {
			log.Fatal(err)
		}
		rank[token] = id
		if id < numBytes {
			if len(token) != 1 {
				log.Fatalf("token %d is %q, want one byte", id, token)
			}
			continue
		}
		halves := encode(rank, token)
		if len(halves) != 2 {
			log.Fatalf("token %d, %q, is made of %q, want two tokens", id, token, halves)
		}
		for _, half := range halves {
			out = binary.LittleEndian.AppendUint16(out, uint16(rank[half]))
		}
	}
	if err := os.WriteFile("gpt2.merges", out, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Println("gpt2.merges:", len(out), "bytes")
}

// encode merges the bytes of word by all tokens except word itself.
func encode(rank map[string]int, word string) []string {
	var parts []string
	for i := range len(word) {
		parts = append(parts, word[i:i+1])
	}
	for {
		best, at := len(rank), -1
		for i := 1; i < len(parts); i++ {
			pair := parts[i-1] + parts[i]
			if id, ok := rank[pair]; ok && pair != word && id < best {
				best, at = id, i
			}
		}
		if at < 0 {
			return parts
		}
		parts[at-1] += parts[at]
		parts = append(parts[:at], parts[at+1:]...)
	}
}
