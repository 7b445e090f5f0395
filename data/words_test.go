package data

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWords counts words in a text longer than what is decoded at a time, and in parts of one.
func TestWords(t *testing.T) {
	ids := func(text string) []int32 {
		var out []int32
		for _, c := range []byte(text) {
			out = append(out, int32(c))
		}
		return out
	}
	for text, want := range map[string]int{" ": 0, "one": 1, "one two\n\nthree\t": 3,
		"\r\na": 1, "don't stop @-@ now .": 5} {
		if got := wordsOf(fromIDs(t, ids(text), 256)); got != want {
			t.Errorf("%q: found %d words, want %d", text, got, want)
		}
	}
	var long []byte
	for range 5000 {
		long = append(long, "word "...)
	}
	tok := fromIDs(t, ids(string(long)), 256)
	if got := wordsOf(tok); got != 5000 {
		t.Errorf("found %d words, want 5000", got)
	}
	if got := wordsOf(tok.Slice(2, 9)); got != 2 { // rd word
		t.Errorf("found %d words in a part, want 2", got)
	}
}

// TestWriteText checks that the text of a part of tokens has no incomplete character at its ends and everything in
// between.
func TestWriteText(t *testing.T) {
	text := strings.Repeat("größer, 東京, 🙂; ", 2000)
	var ids []int32
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	tok := fromIDs(t, ids, 256)
	for lo := range 24 {
		for hi := len(ids) - 24; hi <= len(ids); hi++ {
			var got strings.Builder
			if err := tok.Slice(lo, hi).WriteText(&got, decodingEncoder{}); err != nil {
				t.Fatal(err)
			}
			first, last := lo, hi
			for first < len(text) && !utf8.RuneStart(text[first]) {
				first++
			}
			for last < len(text) && !utf8.RuneStart(text[last]) {
				last--
			}
			if got.String() != text[first:last] {
				t.Fatalf("bytes %d to %d: found a text of %d bytes, want those from %d to %d", lo, hi, got.Len(), first,
					last)
			}
		}
	}
}
