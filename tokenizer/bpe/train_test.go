package bpe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/internal/testkit/toytext"
	"github.com/hippo-ssm/hippo/tokenizer/token"
)

// trainPlainly is the definition of training: it counts all pairs again for every merge.
func trainPlainly(corpus string, specials []string, merges int, minFrequency int64) *Tokenizer {
	spec := trainedSpec(specials)
	var words [][]int32
	var stretch func(text string, specials []string)
	stretch = func(text string, specials []string) {
		if len(specials) > 0 {
			for _, part := range strings.Split(text, specials[0]) {
				stretch(part, specials[1:])
			}
			return
		}
		for _, word := range trainWords(text) {
			var ids []int32
			for i := range len(word) {
				ids = append(ids, spec.ByteID[word[i]])
			}
			words = append(words, ids)
		}
	}
	stretch(corpus, specials)
	for range merges {
		counts := map[tokenPair]int64{}
		best := pairEntry{}
		for _, w := range words {
			for i := 1; i < len(w); i++ {
				pair := tokenPair{w[i-1], w[i]}
				counts[pair]++
			}
		}
		for pair, n := range counts {
			if e := (pairEntry{n, pair}); best.count == 0 || e.before(best) {
				best = e
			}
		}
		if best.count < minFrequency {
			break
		}
		left, right := best.pair.left, best.pair.right
		token := spec.Tokens[left] + spec.Tokens[right]
		id := int32(slices.Index(spec.Tokens, token))
		if id < 0 {
			id = int32(len(spec.Tokens))
			spec.Tokens = append(spec.Tokens, token)
		}
		spec.Merges = append(spec.Merges, [2]int32{left, right})
		spec.Results = append(spec.Results, id)
		for k, w := range words {
			for i := 1; i < len(w); i++ {
				if w[i-1] == left && w[i] == right {
					w = slices.Replace(w, i-1, i+1, id)
				}
			}
			words[k] = w
		}
	}
	t, err := New(spec)
	if err != nil {
		panic(err)
	}
	return t
}

func TestTrainIsDefinition(t *testing.T) {
	units := rapid.SampledFrom([]string{"a", "b", "c", "ab", "aa", "abc", " ", "\n", "é", "\xff", "x|y"})
	rapid.Check(t, func(t *rapid.T) {
		corpus := strings.Join(rapid.SliceOfN(units, 1, 60).Draw(t, "corpus"), "")
		merges := rapid.IntRange(1, 30).Draw(t, "merges")
		least := rapid.IntRange(1, 3).Draw(t, "least")
		specials := []string{"x|y"}
		tok, err := Train(strings.NewReader(corpus),
			TrainOptions{Merges: merges, Specials: specials, MinFrequency: least})
		if strings.ReplaceAll(corpus, "x|y", "") == "" {
			if err == nil {
				t.Fatal("no error for a corpus without text")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want := trainPlainly(corpus, specials, merges, int64(least))
		if got := tok.(*Tokenizer); !slices.Equal(got.Tokens, want.Tokens) || !slices.Equal(got.Merges, want.Merges) ||
			got.Fingerprint() != want.Fingerprint() {
			t.Fatalf("%q: merges %v to %q, want %v to %q", corpus, got.Merges, got.Tokens[257:],
				want.Merges, want.Tokens[257:])
		}
		if back := string(tok.Decode(nil, encodeRapid(t, tok, corpus))); back != corpus {
			t.Fatalf("%q comes back as %q", corpus, back)
		}
	})
}

func encodeRapid(t *rapid.T, tok token.Tokenizer, text string) []int32 {
	ids, err := tok.Encode(nil, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestTrainOptions(t *testing.T) {
	corpus := toytext.Random(500, 20_000)
	bySize, err := Train(strings.NewReader(corpus), TrainOptions{VocabSize: 300})
	if err != nil {
		t.Fatal(err)
	}
	var calls []int
	byMerges, err := Train(iotest.HalfReader(strings.NewReader(corpus)),
		TrainOptions{Merges: 43, Progress: func(done, total int) {
			if total != 43 {
				t.Errorf("progress of %d", total)
			}
			calls = append(calls, done)
		}})
	if err != nil {
		t.Fatal(err)
	}
	if n := bySize.VocabSize(); n != 300 || bySize.Fingerprint() != byMerges.Fingerprint() {
		t.Errorf("%d tokens, and the two ways to say so differ", n)
	}
	if len(calls) != 43 || calls[0] != 1 || calls[42] != 43 {
		t.Errorf("progress %v", calls)
	}
	if id, ok := bySize.EndOfText(); id != 0 || !ok {
		t.Errorf("end of text %d, %v", id, ok)
	}
	plain, err := Train(strings.NewReader(corpus), TrainOptions{Merges: 1, Specials: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := plain.EndOfText(); ok || plain.VocabSize() != 257 {
		t.Errorf("without specials there are %d tokens, end of text %v", plain.VocabSize(), ok)
	}
	// A small corpus runs out of pairs.
	few, err := Train(strings.NewReader("ab ab ab"), TrainOptions{Merges: 1000})
	if err != nil || few.VocabSize() != 257+2 {
		t.Errorf("%v tokens, %v; want ab and ·ab", few.VocabSize(), err)
	}
}

// TestTrainForgetsRareWords checks what happens when words that occur once fill the table.
func TestTrainForgetsRareWords(t *testing.T) {
	var corpus strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&corpus, " %c%c%c%c common", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26, 'a'+i/17576)
	}
	counts, err := countWords(strings.NewReader(corpus.String()), nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if counts.bytes > 1<<20 {
		t.Errorf("the table has %d bytes", counts.bytes)
	}
	if n := counts.count[" common"]; n == nil || *n != 40_000 {
		t.Errorf("the common word has count %v", n)
	}
	size := int64(0)
	for w := range counts.count {
		size += int64(len(w)) + wordOverhead
	}
	if size != counts.bytes || len(counts.count) < 2 {
		t.Errorf("%d words of %d bytes, %d counted", len(counts.count), size, counts.bytes)
	}
}

func TestTrainErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Train(iotest.ErrReader(broken), TrainOptions{Merges: 1}); !errors.Is(err, broken) {
		t.Errorf("read error: %v", err)
	}
	for want, opt := range map[string]TrainOptions{
		"vocab size 0 and merges 0":     {},
		"vocab size 300 and merges 5":   {VocabSize: 300, Merges: 5},
		"vocab size 256, want 257":      {VocabSize: 256},
		"-1 merges":                     {Merges: -1},
		"2097152 merges":                {Merges: 1 << 21},
		"minimum frequency -1":          {Merges: 1, MinFrequency: -1},
		"table of 5 bytes":              {Merges: 1, MaxTableBytes: 5},
		`specials[1] is "<x>"`:          {Merges: 1, Specials: []string{"<x>", "<x>"}},
		`specials[0] is ""`:             {Merges: 1, Specials: []string{""}},
		`specials[0] is "\xff"`:         {Merges: 1, Specials: []string{"\xff"}},
		`which is how tokenizer.json`:   {Merges: 1, Specials: []string{"Ġthe"}},
		`specials[0] is "x", which is`:  {Merges: 1, Specials: []string{"x"}},
		`training: the corpus is empty`: {Merges: 1, Specials: []string{"only"}},
	} {
		if _, err := Train(strings.NewReader("only"), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", opt, err, want)
		}
	}
}

// trainWords splits a text into words as Train does.
func trainWords(text string) (words []string) {
	loadGPT2().Split.Split([]byte(text), 0, len(text), true, func(lo, hi int) { words = append(words, text[lo:hi]) })
	return words
}
