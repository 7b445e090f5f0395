package tokenizer

import (
	"encoding/json"
	"github.com/hippo-ssm/hippo/tokenizer/gguf"
	"github.com/hippo-ssm/hippo/tokenizer/hf"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
	"slices"
	"strings"
	"testing"
)

// ofFile returns the vocabulary of a tokenizer.json with byte-level BPE in the form of a GGUF file.
func ofFile(t *testing.T, data []byte, pre string) gguf.Vocabulary {
	t.Helper()
	var file hf.File
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var texts []string
	place := func(text string, id int32) {
		for len(texts) <= int(id) {
			texts = append(texts, "")
		}
		texts[id] = text
	}
	for text, id := range file.Model.Vocab.IDs {
		place(text, id)
	}
	for _, a := range file.AddedTokens {
		place(a.Content, a.ID)
	}
	v := gguf.Vocabulary{Model: "gpt2", Pre: pre, Tokens: texts, Types: make([]int32, len(texts)), BOS: 0, EOS: -1}
	for i := range v.Types {
		v.Types[i] = int32(sentencepiece.Normal)
	}
	for _, a := range file.AddedTokens {
		v.Types[a.ID] = int32(sentencepiece.Control)
	}
	for _, m := range file.Model.Merges {
		v.Merges = append(v.Merges, m[0]+" "+m[1])
	}
	return v
}

// TestGGUFByteLevel compares ids with those of Hugging Face's library for the same vocabulary and patterns.
func TestGGUFByteLevel(t *testing.T) {
	texts, cases := referenceCases(t)
	for name, pre := range map[string]string{"llama3": "llama-bpe", "granite": "refact"} {
		tok, err := gguf.FromVocabulary(ofFile(t, cases[name].File, pre))
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			if got := encode(t, tok, text); !slices.Equal(got, cases[name].IDs[i]) {
				t.Errorf("%s: %q is %v, want %v", pre, text, got, cases[name].IDs[i])
			}
		}
		if got, err := EncodeAffixed(tok, nil, []byte("hello")); err != nil || !slices.Equal(got, cases[name].Affixed) {
			t.Errorf("%s: with affixes %v (%v), want %v", pre, got, err, cases[name].Affixed)
		}
		dir := t.TempDir()
		if err := tok.Save(dir); err != nil {
			t.Fatal(err)
		}
		again, err := Load(dir)
		if err != nil || again.Fingerprint() != tok.Fingerprint() {
			t.Errorf("%s: saved it is another one (%v)", pre, err)
		}
		before, _ := Affixes(tok)
		if saved, _ := Affixes(again); !slices.Equal(saved, before) {
			t.Errorf("%s: saved the affixes are %v, want %v", pre, saved, before)
		}
	}
}

// TestGGUFSentencePiece compares ids with those of the library SentencePiece for the same pieces.
func TestGGUFSentencePiece(t *testing.T) {
	texts, cases := spCases(t)
	yes := true
	for name, model := range map[string]string{"llama": "llama", "bpe with user symbols": "llama", "bpe": "llama",
		"unigram with bytes": "t5", "t5": "t5"} {
		m, err := sentencepiece.Read(cases[name].Model)
		if err != nil {
			t.Fatal(err)
		}
		v := gguf.Vocabulary{Model: model, BOS: 1, EOS: 2, Charsmap: m.Charsmap, AddEOS: &yes}
		if m.Squeeze {
			v.SqueezeSpaces = &yes
		}
		for _, p := range m.Pieces {
			v.Tokens, v.Scores = append(v.Tokens, p.Text), append(v.Scores, p.Score)
			v.Types = append(v.Types, int32(p.Kind))
		}
		tok, err := gguf.FromVocabulary(v)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			ids, err := EncodeOrdinary(tok, nil, []byte(text))
			if err != nil || !slices.Equal(ids, cases[name].IDs[i]) {
				t.Errorf("%s: %q is %v (%v), want %v", name, text, ids, err, cases[name].IDs[i])
			}
		}
		before, after := Affixes(tok)
		wantBefore := []int32{1}
		if model == "t5" {
			wantBefore = nil
		}
		if !slices.Equal(before, wantBefore) || !slices.Equal(after, []int32{2}) {
			t.Errorf("%s: affixes %v and %v", name, before, after)
		}
		dir := t.TempDir()
		if err := tok.Save(dir); err != nil {
			t.Fatal(err)
		}
		again, err := Load(dir)
		if err != nil || again.Fingerprint() != tok.Fingerprint() {
			t.Errorf("%s: saved it is another one (%v)", name, err)
		}
		if _, saved := Affixes(again); !slices.Equal(saved, after) {
			t.Errorf("%s: saved the affixes are %v, want %v", name, saved, after)
		}
	}
}

// TestGGUFEndOfText checks that eos_token_id ends a document if no token has a name that shows it, also after the
// tokenizer is saved.
func TestGGUFEndOfText(t *testing.T) {
	score := []float32{0, 0, 0, 0}
	for name, c := range map[string]struct {
		v    gguf.Vocabulary
		want int32 // -1 for none
	}{
		"byte level": {gguf.Vocabulary{Model: "gpt2", Pre: "gpt-2", EOS: 2}, 2},
		"pieces":     {gguf.Vocabulary{Model: "llama", Scores: score, EOS: 2}, 2},
		"a name": {gguf.Vocabulary{Model: "gpt2", Pre: "gpt-2", EOS: 2,
			Tokens: []string{"a", "<|endoftext|>", "<|im_end|>", "b"}}, 1},
		"none":         {gguf.Vocabulary{Model: "gpt2", Pre: "gpt-2", EOS: -1}, -1},
		"the first id": {gguf.Vocabulary{Model: "gpt2", Pre: "gpt-2", EOS: 0}, 0},
	} {
		c.v.BOS, c.v.AddBOS = -1, new(bool)
		if c.v.Tokens == nil {
			c.v.Tokens = []string{"a", "<|im_start|>", "<|im_end|>", "b"}
		}
		c.v.Types = []int32{1, 3, 3, 1}
		if c.v.Model == "llama" {
			c.v.Types[0] = 2
		}
		tok, err := gguf.FromVocabulary(c.v)
		if err != nil {
			t.Fatal(name, err)
		}
		dir := t.TempDir()
		if err := tok.Save(dir); err != nil {
			t.Fatal(name, err)
		}
		again, err := Load(dir)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, tok := range []Tokenizer{tok, again} {
			if id, ok := tok.EndOfText(); ok != (c.want >= 0) || ok && id != c.want {
				t.Errorf("%s: a document ends with %d, %v, want %d", name, id, ok, c.want)
			}
		}
	}
	v := gguf.Vocabulary{Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a"}, BOS: -1, EOS: 7}
	want := "end_of_text: found 7, want 0 to 0"
	if _, err := gguf.FromVocabulary(v); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("an end that is no token: %v", err)
	}
}

func TestGGUFErrors(t *testing.T) {
	yes := true
	for want, v := range map[string]gguf.Vocabulary{
		"tokens: found 0":                   {Model: "gpt2"},
		`model: found "bert", want "gpt2"`:  {Model: "bert", Tokens: []string{"a"}},
		`pre: found "new", want one of gpt`: {Model: "gpt2", Pre: "new", Tokens: []string{"a"}},
		"token_type: found 2":               {Model: "gpt2", Tokens: []string{"a"}, Types: []int32{1, 1}},
		"scores: found 0, want one":         {Model: "llama", Tokens: []string{"a"}},
		`ids 0 and 1 are both "a"`:          {Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a", "a"}},
		`merges: merge "ab", want two tokens`: {Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a"},
			Merges: []string{"ab"}},
		"bos_token_id: found 7": {Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a"}, BOS: 7, AddBOS: &yes},
	} {
		if _, err := gguf.FromVocabulary(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
