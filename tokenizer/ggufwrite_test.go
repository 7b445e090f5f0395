package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer/gguf"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
	"golang.org/x/text/unicode/norm"
)

// TestToGGUF checks that a tokenizer that is converted to the values of a GGUF file and back gives the same ids,
// affixes and end of text.
func TestToGGUF(t *testing.T) {
	texts, cases := referenceCases(t)
	ascii, err := Characters(strings.NewReader("\n abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		t.Fatal(err)
	}
	pieces, models := spCases(t)
	toks := map[string]Tokenizer{"bytes": Bytes(), "chars": ascii, "gpt2": GPT2(), "rwkv": longest(t)}
	for _, name := range []string{"llama3", "granite"} {
		if toks[name], err = parseFile(cases[name].File); err != nil {
			t.Fatal(err)
		}
	}
	toks["neox"] = parseTest(t, neoxStyle())
	for _, name := range []string{"llama", "bpe", "t5", "unigram with bytes"} {
		if toks[name], err = sentencepiece.Parse(models[name].Model); err != nil {
			t.Fatal(err)
		}
	}
	for name, tok := range toks {
		v, err := gguf.VocabularyOf(tok)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(v.Tokens) != tok.VocabSize() || len(v.Types) != len(v.Tokens) {
			t.Errorf("%s: %d tokens and %d types, want %d", name, len(v.Tokens), len(v.Types), tok.VocabSize())
		}
		again, err := gguf.FromVocabulary(v)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		hard := slices.Concat(texts, pieces)
		if name == "chars" {
			hard = []string{"call me\nishmael", ""}
		}
		for _, text := range hard {
			if name == "neox" {
				text = norm.NFC.String(text) // it applies NFC, llama.cpp does not
			}
			want, werr := tok.Encode(nil, []byte(text))
			got, err := again.Encode(nil, []byte(text))
			if !slices.Equal(got, want) || (err == nil) != (werr == nil) {
				t.Errorf("%s: %q is %v (%v), want %v (%v)", name, text, got, err, want, werr)
				break
			}
		}
		before, after := Affixes(tok)
		if b, a := Affixes(again); !slices.Equal(b, before) || !slices.Equal(a, after) {
			t.Errorf("%s: affixes %v and %v, want %v and %v", name, b, a, before, after)
		}
		wantEnd, _ := tok.EndOfText()
		if end, _ := again.EndOfText(); end != wantEnd {
			t.Errorf("%s: ends by %d, want %d", name, end, wantEnd)
		}
	}
}

// TestToGGUFErrors checks that the error for a tokenizer that llama.cpp does not have describes it.
func TestToGGUFErrors(t *testing.T) {
	accents, err := Characters(strings.NewReader("aé"))
	if err != nil {
		t.Fatal(err)
	}
	for want, tok := range map[string]Tokenizer{
		"the character 'é'": accents, "the dna tokenizer": DNA(), "(a space before: true": parseTest(t, prefixStyle()),
		"of another form": parseTest(t, fallback()),
	} {
		if _, err := gguf.VocabularyOf(tok); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
