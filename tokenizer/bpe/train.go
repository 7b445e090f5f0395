package bpe

import (
	"errors"
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"io"
	"slices"
	"unicode/utf8"
)

// TrainOptions specifies the tokenizer that Train makes.
type TrainOptions struct {
	// VocabSize is the number of tokens: the special tokens, the 256 bytes, and the results of merges. Merges is the
	// number of merges. Exactly one of the two must be set. There are fewer tokens if the corpus runs out of pairs.
	VocabSize, Merges int

	// Specials lists the added tokens. They get the first ids, and the corpus is not merged across them. Nil means only
	// <|endoftext|>. Empty means none.
	Specials []string

	// MinFrequency is the minimum number of occurrences of a pair to merge; 0 means 2.
	MinFrequency int

	// MaxTableBytes limits the table of the corpus's distinct words; 0 means 256 MiB. Training uses several times as
	// much memory. If the table is full, words that have occurred once are dropped. If less than half of it is free
	// then, words that have occurred at most twice are dropped, then at most four times, and so on. The counts of the
	// rarest words of such a corpus (many gigabytes of ordinary text) are then too low.
	MaxTableBytes int64

	// Progress, unless it is nil, is called after each merge.
	Progress func(merges, total int)
}

// defaults sets the defaults and checks the other options. It returns the number of merges.
func (o *TrainOptions) defaults() (merges int, err error) {
	if o.Specials == nil {
		o.Specials = []string{token.EndOfTextToken}
	}
	if o.MinFrequency == 0 {
		o.MinFrequency = 2
	}
	if o.MaxTableBytes == 0 {
		o.MaxTableBytes = 256 << 20
	}
	for i, s := range o.Specials {
		if s == "" || !utf8.ValidString(s) || slices.Contains(o.Specials[:i], s) {
			return 0, fmt.Errorf("specials[%d] is %q, want different texts in UTF-8 that are not empty", i, s)
		}
		if written, ok := pretokenize.FromChars(s); ok && (written != s || len(s) == 1) {
			return 0, fmt.Errorf("specials[%d] is %q, which is how %s writes the bytes %q", i, s, token.FileName,
				written)
		}
	}
	base := len(o.Specials) + 256
	switch {
	case (o.VocabSize == 0) == (o.Merges == 0):
		return 0, fmt.Errorf("vocab size %d and merges %d, want one of them", o.VocabSize, o.Merges)
	case o.VocabSize != 0 && (o.VocabSize < base || o.VocabSize > MaxMerges):
		return 0, fmt.Errorf("vocab size %d, want %d (the specials and 256 bytes) to %d", o.VocabSize, base, MaxMerges)
	case o.Merges < 0 || o.Merges > MaxMerges-base:
		return 0, fmt.Errorf("%d merges, want 1 to %d", o.Merges, MaxMerges-base)
	case o.MinFrequency < 1:
		return 0, fmt.Errorf("minimum frequency %d, want at least 1", o.MinFrequency)
	case o.MaxTableBytes < 1<<20:
		return 0, fmt.Errorf("a word table of %d bytes, want at least %d", o.MaxTableBytes, 1<<20)
	}
	if o.VocabSize != 0 {
		return o.VocabSize - base, nil
	}
	return o.Merges, nil
}

// Train learns a byte-level BPE vocabulary from a corpus. It splits the corpus into words by GPT-2's pattern, and
// repeatedly merges the pair of adjacent tokens that occurs most often (Sennrich et al., arXiv:1508.07909). Among
// equally frequent pairs, the one with the lower ids is merged first, so the same corpus gives the same vocabulary. Ids
// are in Hugging Face's order: special tokens, bytes, merges.
//
// Training takes about a second for 2 MB of English and 2,000 merges. A word of more than 1,024 bytes counts as
// several.
func Train(corpus io.Reader, opt TrainOptions) (token.Tokenizer, error) {
	t, err := trainBPE(corpus, opt)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: training: %w", err)
	}
	return t, nil
}

func trainBPE(corpus io.Reader, opt TrainOptions) (token.Tokenizer, error) {
	merges, err := opt.defaults()
	if err != nil {
		return nil, err
	}
	spec := trainedSpec(opt.Specials)
	counts, err := countWords(corpus, opt.Specials, opt.MaxTableBytes)
	if err != nil {
		return nil, err
	}
	if len(counts.count) == 0 {
		return nil, errors.New("the corpus is empty")
	}
	learnMerges(&spec, counts, merges, int64(opt.MinFrequency), opt.Progress)
	for _, token := range spec.Tokens[len(opt.Specials):] {
		spec.File.Vocab = append(spec.File.Vocab, pretokenize.ToChars(token))
	}
	return New(spec)
}

// trainedSpec returns a vocabulary of the special tokens and the bytes.
func trainedSpec(specials []string) Spec {
	byteLevel := []byte(`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`)
	spec := Spec{
		Type:     "bpe",
		Patterns: []string{regex.GPT2Pattern},
		File:     Settings{PreTokenizer: byteLevel, PostProcessor: byteLevel, Decoder: byteLevel},
	}
	for i, s := range specials {
		spec.Added = append(spec.Added, added.Token{ID: int32(i), Content: s, Special: true})
		spec.Tokens = append(spec.Tokens, s)
		spec.File.Vocab = append(spec.File.Vocab, s)
	}
	for _, b := range pretokenize.ByteOrder {
		spec.ByteID[b] = int32(len(spec.Tokens))
		spec.Tokens = append(spec.Tokens, string([]byte{b}))
	}
	return spec
}

// maxTrainWord is the maximum number of bytes of a counted word. Longer words are divided.
const maxTrainWord = 1024

// wordCounts counts the occurrences of each word of a corpus.
type wordCounts struct {
	count map[string]*int64
	bytes int64 // approximate memory of count
	limit int64
}

// wordOverhead is the approximate memory of a word in the table, without its bytes.
const wordOverhead = 80

// countWords counts the words of a corpus.
func countWords(corpus io.Reader, specials []string, limit int64) (*wordCounts, error) {
	pattern, err := regex.Compile(regex.GPT2Pattern)
	if err != nil {
		return nil, err
	}
	var tokens []added.Token
	for i, s := range specials {
		tokens = append(tokens, added.Token{Content: s, ID: int32(i)})
	}
	special := added.NewSet(tokens)
	c := &wordCounts{count: map[string]*int64{}, limit: limit}
	err = token.ReadPieces(corpus, token.FirstRead, func(text []byte, last bool) (done int, err error) {
		tokens := special.Scan(text, last)
		for at := 0; ; {
			lo, hi, id := tokens.Next(at)
			done := regex.Splitter{pattern}.Split(text, at, lo, last || id >= 0, func(lo, hi int) {
				for ; lo < hi; lo += maxTrainWord {
					c.add(text[lo:min(hi, lo+maxTrainWord)])
				}
			})
			if id < 0 {
				return done, nil
			}
			at = hi
		}
	})
	return c, err
}

// add counts a word.
func (c *wordCounts) add(word []byte) {
	if n := c.count[string(word)]; n != nil {
		*n++
		return
	}
	n := int64(1)
	c.count[string(word)] = &n
	c.bytes += int64(len(word)) + wordOverhead
	if c.bytes <= c.limit {
		return
	}
	for most := int64(1); c.bytes > c.limit/2; most *= 2 {
		for w, n := range c.count {
			if *n <= most {
				delete(c.count, w)
				c.bytes -= int64(len(w)) + wordOverhead
			}
		}
	}
}
