package tokenizer

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/toytext"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
)

// benchText returns the file named by HIPPO_BENCH_TEXT, or random words.
func benchText(b *testing.B) []byte {
	path := os.Getenv("HIPPO_BENCH_TEXT")
	if path == "" {
		return []byte(toytext.Random(20_000, 1<<20))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

func BenchmarkEncodeGPT2(b *testing.B) { benchEncode(b, benchText(b)) }

// These benchmarks measure the worst case for BPE: a megabyte without the end of a word.

func BenchmarkEncodeLetterRun(b *testing.B) { benchEncode(b, bytes.Repeat([]byte("a"), 1<<20)) }
func BenchmarkEncodeSpaceRun(b *testing.B)  { benchEncode(b, bytes.Repeat([]byte(" "), 1<<20)) }

func BenchmarkEncodeLetters(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = byte('a' + rng.IntN(26))
	}
	benchEncode(b, text)
}

func benchEncode(b *testing.B, text []byte) {
	tok := GPT2()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var ids []int32
	for b.Loop() {
		var err error
		if ids, err = tok.Encode(ids[:0], text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeGPT2(b *testing.B) {
	text := benchText(b)
	ids, err := GPT2().Encode(nil, text)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	var out []byte
	for b.Loop() {
		out = GPT2().Decode(out[:0], ids)
	}
}

// BenchmarkTrain measures learning 2,000 merges from at most 2 MB.
func BenchmarkTrain(b *testing.B) {
	text := string(benchText(b))
	if len(text) > 2e6 {
		text = text[:2e6]
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := bpe.Train(strings.NewReader(text), bpe.TrainOptions{Merges: 2000}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodeReference measures encoding with small tokenizers of every form, see gen/reference.js and
// gen/sentencepiece.js.
func BenchmarkEncodeReference(b *testing.B) {
	run := func(name string, tok Tokenizer, err error) {
		b.Run(name, func(b *testing.B) {
			if err != nil {
				b.Fatal(err)
			}
			text := benchText(b)
			b.SetBytes(int64(len(text)))
			var ids []int32
			for b.Loop() {
				if ids, err = tok.Encode(ids[:0], text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	_, files := referenceCases(b)
	for name, c := range files {
		tok, err := parseFile(c.File)
		run(name, tok, err)
	}
	_, models := spCases(b)
	for name, c := range models {
		tok, err := sentencepiece.Parse(c.Model)
		run("model "+name, tok, err)
	}
}
