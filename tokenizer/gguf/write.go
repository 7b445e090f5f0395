package gguf

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/chars"
	"github.com/hippo-ssm/hippo/tokenizer/hf"
	"github.com/hippo-ssm/hippo/tokenizer/normalize"
	"github.com/hippo-ssm/hippo/tokenizer/pipeline"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"github.com/hippo-ssm/hippo/tokenizer/trie"
	"golang.org/x/text/unicode/norm"
)

// VocabularyOf returns the values of a GGUF file for a tokenizer, so that llama.cpp produces the same tokens. It is an
// error if llama.cpp has no tokenizer of the kind. The normalization form NFC is omitted, as llama.cpp does not apply
// it. It changes a text only if accents are separate characters after their letters.
func VocabularyOf(tok token.Tokenizer) (Vocabulary, error) {
	v, err := toGGUF(tok)
	if err == nil {
		err = v.setAffixes(tok)
	}
	if err != nil {
		return v, fmt.Errorf("tokenizer: GGUF: %w", err)
	}
	return v, nil
}

func toGGUF(tok token.Tokenizer) (v Vocabulary, err error) {
	switch t := tok.(type) {
	case chars.ByteTokenizer:
		return charsVocabulary(func(id int) string { return string([]byte{byte(id)}) }, t.VocabSize()), nil
	case *chars.CharTokenizer:
		if last := t.Alphabet[len(t.Alphabet)-1]; last >= utf8.RuneSelf {
			return v, fmt.Errorf("found the character %q as a token, want none of several bytes: "+
				"llama.cpp has no tokenizer of characters", last)
		}
		return charsVocabulary(func(id int) string { return string(t.Alphabet[id]) }, t.VocabSize()), nil
	case *bpe.Tokenizer:
		return byteLevelVocabulary(t)
	case *trie.Tokenizer:
		return longestVocabulary(t), nil
	case *pipeline.Tokenizer:
		if t.Bytes == nil {
			return pieceVocabulary(t)
		}
		for _, step := range t.Norms {
			if step != (normalize.UnicodeForm{Form: norm.NFC}) {
				return v, errors.New("found a normalizer, want none or NFC: llama.cpp has no other")
			}
		}
		return byteLevelVocabulary(t.Bytes)
	}
	return v, fmt.Errorf("found the %s tokenizer, want one of bytes, ASCII characters, BPE, SentencePiece or RWKV",
		tok.Kind())
}

// charsVocabulary returns the vocabulary of a tokenizer without merges.
func charsVocabulary(token func(id int) string, n int) Vocabulary {
	v := Vocabulary{Model: "gpt2", Pre: "gpt-2"}
	for id := range n {
		v.Tokens, v.Types = append(v.Tokens, pretokenize.ToChars(token(id))), append(v.Types,
			int32(sentencepiece.Normal))
	}
	return v
}

// longestVocabulary returns the vocabulary of a tokenizer that takes the longest token.
func longestVocabulary(t *trie.Tokenizer) Vocabulary {
	v := Vocabulary{Model: trie.Kind}
	for id, token := range t.Tokens {
		text, kind := trie.Escape(token), sentencepiece.Normal
		switch {
		case id == 0 && token == "":
			text, kind = "<s>", sentencepiece.Control
		case token == "":
			text, kind = UnusedToken(id), sentencepiece.Unused
		}
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, int32(kind))
	}
	return v
}

// byteLevelVocabulary returns the vocabulary of byte-level BPE.
func byteLevelVocabulary(t *bpe.Tokenizer) (v Vocabulary, err error) {
	at := slices.IndexFunc(ggufPres, func(p ggufPre) bool {
		return slices.Equal(p.patterns, t.Patterns) && p.whole == (t.Words != nil)
	})
	if at < 0 || t.PrefixSpace {
		return v, fmt.Errorf("found a tokenizer that cuts words by %.200q (a space before: %v, whole words: %v), "+
			"want one of those that llama.cpp has", t.Patterns, t.PrefixSpace, t.Words != nil)
	}
	v.Model = "gpt2"
	v.Pre, _, _ = strings.Cut(ggufPres[at].names, " ")
	for id, token := range t.Tokens {
		text, kind := pretokenize.ToChars(token), sentencepiece.Normal
		if id < len(t.File.Vocab) && t.File.Vocab[id] != "" {
			text = t.File.Vocab[id] // a special token may be written as itself
		}
		if token == "" {
			text, kind = UnusedToken(id), sentencepiece.Unused
		}
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, int32(kind))
	}
	for _, a := range t.Added {
		v.Tokens[a.ID], v.Types[a.ID] = a.Content, int32(sentencepiece.User)
		if a.Special {
			v.Types[a.ID] = int32(sentencepiece.Control)
		}
	}
	for _, pair := range t.Merges {
		v.Merges = append(v.Merges, pretokenize.ToChars(t.Tokens[pair[0]])+" "+pretokenize.ToChars(t.Tokens[pair[1]]))
	}
	return v, nil
}

// UnusedToken returns the text of an id without a token, as in llama.cpp's conversion.
func UnusedToken(id int) string { return fmt.Sprintf("[PAD%d]", id) }

// pieceVocabulary returns the vocabulary of a SentencePiece tokenizer.
func pieceVocabulary(t *pipeline.Tokenizer) (v Vocabulary, err error) {
	data, err := t.Marshal()
	if err != nil {
		return v, err
	}
	var file hf.File
	if err := json.Unmarshal(data, &file); err != nil || file.Hippo == nil {
		return v, errors.New("found a tokenizer.json of another form, " +
			"want byte-level BPE that cuts words by patterns, or a tokenizer.model")
	}
	m, err := sentencepiece.Read(file.Hippo.Model)
	if err != nil {
		return v, err
	}
	v = Vocabulary{Model: "llama", Charsmap: m.Charsmap, SpacePrefix: &m.DummyPrefix, SqueezeSpaces: &m.Squeeze}
	if m.Unigram {
		v.Model = "t5"
	}
	for _, p := range m.Pieces {
		v.Tokens, v.Types = append(v.Tokens, p.Text), append(v.Types, int32(p.Kind))
		v.Scores = append(v.Scores, p.Score)
	}
	return v, nil
}

// setAffixes sets the ids around a text, and the ids of the tokens that start and end a text.
func (v *Vocabulary) setAffixes(tok token.Tokenizer) error {
	before, after := token.Affixes(tok)
	if len(before) > 1 || len(after) > 1 {
		return fmt.Errorf("found %d tokens before a text and %d after it, want at most one each", len(before),
			len(after))
	}
	begins, ends := len(before) == 1, len(after) == 1
	v.AddBOS, v.AddEOS, v.BOS, v.EOS = &begins, &ends, -1, -1
	if id, ok := tok.EndOfText(); ok {
		v.BOS, v.EOS = id, id // as in GPT-2
	}
	if begins {
		v.BOS = before[0]
	}
	if ends {
		v.EOS = after[0]
	}
	return nil
}
