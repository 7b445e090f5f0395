package gguf

import (
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"slices"
	"strings"
	"testing"
)

// TestGGUFPatterns checks that the patterns of every name compile, and that the words they split a text into are the
// whole text.
func TestGGUFPatterns(t *testing.T) {
	text := "Hello WORLD's 12345  x+=1;\r\n\n\t日本語 Élan n\u0303 <|a|> `b`"
	seen := map[string]bool{}
	for _, pre := range ggufPres {
		words := wordsBy(t, pre.patterns, text)
		if strings.Join(words, "") != text || len(words) < 8 {
			t.Errorf("%s: %q", pre.names, words)
		}
		for _, name := range strings.Fields(pre.names) {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
	}
	for pre, want := range map[string][]string{
		"lfm2":   {"Hello", " WORLD", "'s", " ", "123", "45", " ", " x", "+=", "1", ";\r\n\n", "\t日本語"},
		"qwen2":  {"Hello", " WORLD", "'s", " ", "1", "2", "3", "4", "5", " ", " x", "+=", "1", ";\r\n\n", "\t日本語"},
		"falcon": {"Hello", " WORLD", "'", "s", " ", "123", "45", " ", " x", "+=", "1", ";", "\r\n\n", "\t", "日本語"},
		"tekken": {"Hello", " WORLD", "'s", " ", "1", "2", "3", "4", "5", " ", " x", "+=", "1", ";\r\n\n", "\t日本語"},
	} {
		at := slices.IndexFunc(ggufPres, func(p ggufPre) bool { return slices.Contains(strings.Fields(p.names), pre) })
		if got := wordsBy(t, ggufPres[at].patterns, text); !slices.Equal(got[:len(want)], want) {
			t.Errorf("%s: %q, want %q", pre, got, want)
		}
	}
}

// wordsBy splits a text into words.
func wordsBy(t *testing.T, patterns []string, text string) (words []string) {
	t.Helper()
	var s regex.Splitter
	for _, p := range patterns {
		d, err := regex.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, d)
	}
	s.Split([]byte(text), 0, len(text), true, func(lo, hi int) { words = append(words, text[lo:hi]) })
	return words
}
