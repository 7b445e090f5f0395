package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"pgregory.net/rapid"
)

// newSplitter compiles patterns.
func newSplitter(t testing.TB, patterns []string) regex.Splitter {
	t.Helper()
	var s regex.Splitter
	for _, p := range patterns {
		d, err := regex.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, d)
	}
	return s
}

// wordsOf splits a text into words.
func wordsOf(s regex.Splitter, text string) []string {
	words := []string{}
	s.Split([]byte(text), 0, len(text), true, func(lo, hi int) { words = append(words, text[lo:hi]) })
	return words
}

// knownSplits returns the content of testdata/splits.json: the pretokenization patterns of published tokenizers, and
// texts that another program split by them.
func knownSplits(t testing.TB) map[string]struct {
	Patterns []string
	Texts    [][]string
} {
	t.Helper()
	data, err := os.ReadFile("testdata/splits.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases map[string]struct {
			Patterns []string
			Texts    [][]string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	return file.Cases
}

func TestKnownSplits(t *testing.T) {
	for name, c := range knownSplits(t) {
		t.Run(name, func(t *testing.T) {
			s := newSplitter(t, c.Patterns)
			for _, want := range c.Texts {
				if got := wordsOf(s, strings.Join(want, "")); !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
}

func TestSplitInvalidUTF8(t *testing.T) {
	// An invalid byte is treated like punctuation.
	got := wordsOf(newSplitter(t, []string{regex.GPT2Pattern}), "a \xff\xe2\x82b  \xf0!")
	want := []string{"a", " \xff\xe2\x82", "b", " ", " \xf0!"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSplitInPieces checks that text that arrives in any pieces is split into the same words.
func TestSplitInPieces(t *testing.T) {
	units := rapid.SampledFrom([]string{"a", "B", "'s", "'", " ", "  ", "\n", "\r\n", "1", "23", "!", "é", "日",
		"\xff", "\xe2\x82", "e\u0301"})
	for name, c := range knownSplits(t) {
		t.Run(name, func(t *testing.T) {
			s := newSplitter(t, c.Patterns)
			rapid.Check(t, func(t *rapid.T) {
				text := strings.Join(rapid.SliceOfN(units, 0, 20).Draw(t, "text"), "")
				var got []string
				done := 0
				for have := 0; ; {
					have = min(have+rapid.IntRange(1, 6).Draw(t, "more"), len(text))
					last := have == len(text)
					n := s.Split([]byte(text[done:have]), 0, have-done, last, func(lo, hi int) {
						got = append(got, text[done+lo:done+hi])
					})
					done += n
					if last {
						break
					}
				}
				if want := wordsOf(s, text); done != len(text) || !slices.Equal(got, want) {
					t.Fatalf("in pieces %q, at once %q", got, want)
				}
			})
		})
	}
}
