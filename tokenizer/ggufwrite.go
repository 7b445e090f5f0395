package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ToGGUF is what a GGUF file says of a tokenizer, so that llama.cpp has the same tokens. It is an error if that program
// has no tokenizer of the kind. The normalization form NFC is left out, which llama.cpp does not apply: it changes a
// text only where accents stand behind their letters.
func ToGGUF(tok Tokenizer) (Vocabulary, error) {
	v, err := toGGUF(tok)
	if err == nil {
		err = v.setAffixes(tok)
	}
	if err != nil {
		return v, fmt.Errorf("tokenizer: GGUF: %w", err)
	}
	return v, nil
}

func toGGUF(tok Tokenizer) (v Vocabulary, err error) {
	switch t := tok.(type) {
	case byteTokenizer:
		return charsVocabulary(func(id int) string { return string([]byte{byte(id)}) }, t.VocabSize()), nil
	case *charTokenizer:
		if last := t.alphabet[len(t.alphabet)-1]; last >= utf8.RuneSelf {
			return v, fmt.Errorf("found the character %q as a token, want none of several bytes: llama.cpp has no "+
				"tokenizer of characters", last)
		}
		return charsVocabulary(func(id int) string { return string(t.alphabet[id]) }, t.VocabSize()), nil
	case *bpe:
		return byteLevelVocabulary(t)
	case *pipeline:
		if t.bytes == nil {
			return pieceVocabulary(t)
		}
		for _, step := range t.norms {
			if step != (unicodeForm{norm.NFC}) {
				return v, errors.New("found a normalizer, want none or NFC: llama.cpp has no other")
			}
		}
		return byteLevelVocabulary(t.bytes)
	}
	return v, fmt.Errorf("found the %s tokenizer, want one of bytes, ASCII characters, BPE or SentencePiece",
		tok.Kind())
}

// charsVocabulary is the vocabulary of a tokenizer without merges.
func charsVocabulary(token func(id int) string, n int) Vocabulary {
	v := Vocabulary{Model: "gpt2", Pre: "gpt-2"}
	for id := range n {
		v.Tokens, v.Types = append(v.Tokens, toChars(token(id))), append(v.Types, int32(spNormal))
	}
	return v
}

// byteLevelVocabulary is that of byte-level BPE.
func byteLevelVocabulary(t *bpe) (v Vocabulary, err error) {
	at := slices.IndexFunc(ggufPres, func(p ggufPre) bool {
		return slices.Equal(p.patterns, t.patterns) && p.whole == (t.words != nil)
	})
	if at < 0 || t.prefixSpace {
		return v, fmt.Errorf("found a tokenizer that cuts words by %.200q (a space before: %v, whole words: %v), want "+
			"one of those that llama.cpp has", t.patterns, t.prefixSpace, t.words != nil)
	}
	v.Model = "gpt2"
	v.Pre, _, _ = strings.Cut(ggufPres[at].names, " ")
	for id, token := range t.tokens {
		text, kind := toChars(token), spNormal
		if id < len(t.file.vocab) && t.file.vocab[id] != "" {
			text = t.file.vocab[id] // a special one may stand for itself
		}
		if token == "" {
			text, kind = UnusedToken(id), spUnused
		}
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, int32(kind))
	}
	for _, a := range t.added {
		v.Tokens[a.ID], v.Types[a.ID] = a.Content, int32(spUser)
		if a.Special {
			v.Types[a.ID] = int32(spControl)
		}
	}
	for _, pair := range t.merges {
		v.Merges = append(v.Merges, toChars(t.tokens[pair[0]])+" "+toChars(t.tokens[pair[1]]))
	}
	return v, nil
}

// UnusedToken is the text of an id without a token, as llama.cpp's conversion writes it.
func UnusedToken(id int) string { return fmt.Sprintf("[PAD%d]", id) }

// pieceVocabulary is the vocabulary of SentencePiece.
func pieceVocabulary(t *pipeline) (v Vocabulary, err error) {
	data, err := t.marshal()
	if err != nil {
		return v, err
	}
	var file hfFile
	if err := json.Unmarshal(data, &file); err != nil || file.Hippo == nil {
		return v, errors.New("found a tokenizer.json of another form, want byte-level BPE that cuts words by " +
			"patterns, or a tokenizer.model")
	}
	m, err := readSPModel(file.Hippo.Model)
	if err != nil {
		return v, err
	}
	v = Vocabulary{Model: "llama", Charsmap: m.Charsmap, SpacePrefix: &m.DummyPrefix, SqueezeSpaces: &m.Squeeze}
	if m.Unigram {
		v.Model = "t5"
	}
	for _, p := range m.Pieces {
		v.Tokens, v.Types = append(v.Tokens, p.text), append(v.Types, int32(p.kind))
		v.Scores = append(v.Scores, p.score)
	}
	return v, nil
}

// setAffixes sets the ids around a text, and those that begin and end one.
func (v *Vocabulary) setAffixes(tok Tokenizer) error {
	before, after := Affixes(tok)
	if len(before) > 1 || len(after) > 1 {
		return fmt.Errorf("found %d tokens before a text and %d behind it, want at most one each", len(before),
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
