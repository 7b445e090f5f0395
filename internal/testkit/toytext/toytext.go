// Package toytext makes texts for tests and benchmarks.
package toytext

import (
	"math/rand/v2"
	"strings"
)

// Random returns text of words drawn with the skewed frequencies of a natural language.
func Random(words, n int) string {
	rng := rand.New(rand.NewPCG(5, 6))
	var list []string
	for range words {
		b := make([]byte, 2+rng.IntN(8))
		for i := range b {
			b[i] = "eeetaoinshrdlu"[rng.IntN(14)]
		}
		list = append(list, string(b))
	}
	zipf := rand.NewZipf(rng, 1.1, 3, uint64(words-1))
	var text strings.Builder
	for text.Len() < n {
		text.WriteString(list[zipf.Uint64()])
		text.WriteString([]string{" ", " ", " ", ", ", ".\n"}[rng.IntN(5)])
	}
	return text.String()
}
