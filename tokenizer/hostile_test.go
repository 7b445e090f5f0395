package tokenizer

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// TestLongWords encodes words without an end, in which every character joins the next. Time beyond a few passes over
// the text would show: the whole text is one word for most.
func TestLongWords(t *testing.T) {
	_, files := referenceCases(t)
	_, models := spCases(t)
	texts := [][]byte{bytes.Repeat([]byte("e"), 1<<18), bytes.Repeat([]byte(" "), 1<<18),
		bytes.Repeat([]byte("the"), 1<<16), bytes.Repeat([]byte("e\u0301"), 1<<16), bytes.Repeat([]byte("\xff"), 1<<16)}
	check := func(name string, tok Tokenizer, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			ids, err := tok.Encode(nil, text)
			if err == nil && len(ids) > 4*len(text) {
				t.Errorf("%s: %d ids for %d bytes %.3q", name, len(ids), len(text), text)
			}
		}
	}
	for name, c := range files {
		tok, err := parseFile(c.File)
		check(name, tok, err)
	}
	for name, c := range models {
		tok, err := SentencePiece(c.Model)
		check(name, tok, err)
	}
}

// TestHostileCharsmap: a trie whose nodes lead to themselves ends, because every step takes a byte of a key of bounded
// length, and places outside the file are no replacements.
func TestHostileCharsmap(t *testing.T) {
	units := make([]byte, 4+4*256)
	binary.LittleEndian.PutUint32(units, 4*256)
	for b := range 256 {
		// node b is reached by b; its children stand at 0 ^ label again, and a string ends in it
		binary.LittleEndian.PutUint32(units[4+4*b:], uint32(b)<<10|1<<8|uint32(b))
	}
	m, err := newCharsmap(append(units, "x\x00"...))
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("abcdefgh", 1<<14))
	out, used := m.apply(nil, text, true, true)
	if used != len(text) || len(out) > 256*len(text) {
		t.Errorf("%d of %d bytes used, %d bytes out", used, len(text), len(out))
	}
	if _, n, open := m.find([]byte(strings.Repeat("a", 1000))); n > maxKey || open {
		t.Errorf("a key of %d bytes, open: %v", n, open)
	}
}
