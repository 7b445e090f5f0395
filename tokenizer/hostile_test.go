package tokenizer

import (
	"bytes"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
	"testing"
)

// TestLongWords encodes words without an end, in which every character joins the next. For most tokenizers the whole
// text is one word. More than a few passes over the text would take noticeably long.
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
		tok, err := sentencepiece.Parse(c.Model)
		check(name, tok, err)
	}
}
