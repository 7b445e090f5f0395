// Package hf reads Hugging Face's tokenizer.json with a BPE or a Unigram model. The format is documented only by the
// library that writes it, github.com/huggingface/tokenizers. Package bpe writes the format.
package hf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/fault"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/token"
)

// File is the structure of a tokenizer.json.
type File struct {
	// Hippo is set in a file that Save wrote for another kind of tokenizer. The other fields are then absent.
	Hippo       *token.Section `json:"hippo"`
	AddedTokens []added.Token  `json:"added_tokens"`
	bpe.Settings
	Model Model `json:"model"`
}

type Model struct {
	Type         *string     `json:"type"` // absent in files of GPT-2's time
	Dropout      *float64    `json:"dropout"`
	Prefix       *string     `json:"continuing_subword_prefix"`
	Suffix       *string     `json:"end_of_word_suffix"`
	Unk          *string     `json:"unk_token"` // BPE
	UnkID        *int32      `json:"unk_id"`    // Unigram
	FuseUnk      *bool       `json:"fuse_unk"`
	ByteFallback bool        `json:"byte_fallback"`
	IgnoreMerges bool        `json:"ignore_merges"`
	Vocab        Vocab       `json:"vocab"`
	Merges       []mergePair `json:"merges"`
}

// Vocab is the vocabulary: ids by text or, for a unigram model, a list of texts with their scores.
type Vocab struct {
	IDs    map[string]int32
	scores []float64 // nil for none
}

func (v *Vocab) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, &v.IDs)
	}
	var list []scoredPiece
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	v.IDs = make(map[string]int32, len(list))
	for id, piece := range list {
		if old, ok := v.IDs[piece.text]; ok {
			return fmt.Errorf("model.vocab: ids %d and %d are both %.60q", old, id, piece.text)
		}
		v.IDs[piece.text] = int32(id)
		v.scores = append(v.scores, piece.score)
	}
	return nil
}

// scoredPiece is ["text",-1.5].
type scoredPiece struct {
	text  string
	score float64
}

func (s *scoredPiece) UnmarshalJSON(data []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("model.vocab: found %.60q, want a text and its score", data)
	}
	return errors.Join(json.Unmarshal(pair[0], &s.text), json.Unmarshal(pair[1], &s.score))
}

// mergePair is a pair of tokens: "a b" or, in newer files, ["a","b"].
type mergePair [2]string

func (m *mergePair) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		var pair []string
		if err := json.Unmarshal(data, &pair); err != nil {
			return fmt.Errorf("a merge: %w", err)
		}
		if len(pair) != 2 {
			return fmt.Errorf("a merge of %d tokens, want 2", len(pair))
		}
		*m = mergePair(pair)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a merge: %w", err)
	}
	var err error
	*m, err = ParseMerge(text)
	return err
}

// ParseMerge parses "a b".
func ParseMerge(text string) (mergePair, error) {
	left, right, _ := strings.Cut(text, " ")
	if left == "" || right == "" || strings.Contains(right, " ") {
		return mergePair{}, fmt.Errorf("merge %.60q, want two tokens with a space between", text)
	}
	return mergePair{left, right}, nil
}

// Parse checks a tokenizer.json in Hugging Face's format and returns its tokenizer.
func Parse(file *File, data []byte) (t token.Tokenizer, err error) {
	err = fault.Catch(func() {
		fault.Check(file.Model.check())
		r := reader{file: file, work: regex.MaxWork}
		r.read()
		t = r.tokenizer(data)
	})
	return t, err
}

// tokenizer returns the tokenizer of a file whose parts have been read.
func (r *reader) tokenizer(data []byte) token.Tokenizer {
	file, classic := r.file, false
	spec := bpe.Spec{Type: "bpe", File: file.Settings, Before: r.before, After: r.after, Added: file.AddedTokens}
	fault.Within("pre_tokenizer", func() { spec.Patterns, spec.PrefixSpace, classic = classicSplits(r.splits) })
	if !classic || !isBPE(&file.Model) || file.Model.ByteFallback || !isByteLevel(r.decoder) {
		return r.pipeline(data)
	}
	setVocab(&spec, &file.Model)
	spec.Merges, spec.Results = file.Model.mergeIDs(true)
	spec.Tokens = placeAdded(spec.Tokens, file.AddedTokens, file.Model.Vocab.IDs)
	t := fault.Must(bpe.New(spec))
	fault.Check(token.CheckAffixes(t.Before, t.After, len(t.Tokens)))
	if len(r.norms) == 0 && !slices.ContainsFunc(file.AddedTokens, added.Token.HasFlags) {
		return t
	}
	return r.aroundBPE(t)
}

// isBPE reports whether a model is BPE.
func isBPE(m *Model) bool { return m.Type == nil || *m.Type == "BPE" }

// check returns an error for models whose encoding is not supported.
func (m *Model) check() error {
	switch {
	case !isBPE(m) && *m.Type != "Unigram":
		return fmt.Errorf("model.type is %.60q, want BPE or Unigram", *m.Type)
	case len(m.Vocab.IDs) == 0:
		return errors.New("model.vocab is empty or missing")
	case isBPE(m) != (m.Vocab.scores == nil):
		return errors.New("model.vocab: want ids by text for BPE, and a list with scores for Unigram")
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model.dropout is %v, want none", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("model.continuing_subword_prefix is %.60q, want none", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("model.end_of_word_suffix is %.60q, want none", *m.Suffix)
	}
	return nil
}

// maxHoles limits the ids without a token: there may be at most this many more ids than tokens.
const maxHoles = 1 << 16

// texts returns the text of each id in model.vocab, "" for ids that are not in it.
func (m *Model) texts() []string {
	type entry struct {
		id   int32
		text string
	}
	var entries []entry // sorted, so that the same file gives the same error
	for text, id := range m.Vocab.IDs {
		entries = append(entries, entry{id, text})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.text, b.text))
	})
	most := int32(min(2*len(entries)+maxHoles, bpe.MaxIDs-1))
	var texts []string
	for _, e := range entries {
		switch {
		case e.text == "":
			fault.Raisef("model.vocab: the token of id %d is empty", e.id)
		case e.id < 0 || e.id > most:
			fault.Raisef("model.vocab: %.60q has id %d, want 0 to %d for %d tokens",
				e.text, e.id, most, len(entries))
		case int(e.id) < len(texts):
			fault.Raisef("model.vocab: %.60q and %.60q both have id %d", texts[e.id], e.text, e.id)
		}
		for len(texts) < int(e.id) {
			texts = append(texts, "")
		}
		texts = append(texts, e.text)
	}
	return texts
}

// setVocab sets Tokens and ByteID from model.vocab.
func setVocab(s *bpe.Spec, m *Model) {
	s.File.Vocab = m.texts()
	if m.IgnoreMerges {
		s.Words = make(map[string]int32, len(m.Vocab.IDs))
	}
	for id, text := range s.File.Vocab {
		// A token that is not written in byte characters, such as a special one, is its own text. No merge gives it.
		token, ok := pretokenize.FromChars(text)
		if !ok {
			token = text
		} else if s.Words != nil && text != "" {
			s.Words[token] = int32(id)
		}
		s.Tokens = append(s.Tokens, token)
	}
	for b, char := range pretokenize.ByteChar {
		id, ok := m.Vocab.IDs[string(char)]
		if !ok {
			id = -1
		}
		s.ByteID[b] = id
	}
}

// mergeIDs returns the ids of model.merges, and of the results. If inBytes is true, it omits merges of tokens with a
// space.
func (m *Model) mergeIDs(inBytes bool) (merges [][2]int32, results []int32) {
	if len(m.Merges) > bpe.MaxMerges {
		fault.Raisef("model.merges: %d merges, want at most %d", len(m.Merges), bpe.MaxMerges)
	}
	for rank, merge := range m.Merges {
		if inBytes && strings.Contains(merge[0]+merge[1], " ") {
			continue // in byte characters a space is never written as itself, so this merge is never used
		}
		var ids [3]int32
		for i, text := range []string{merge[0], merge[1], merge[0] + merge[1]} {
			id, ok := m.Vocab.IDs[text]
			if !ok {
				fault.Raisef("model.merges[%d] is %.60q and %.60q, but %.60q is not in model.vocab",
					rank, merge[0], merge[1], text)
			}
			ids[i] = id
		}
		merges = append(merges, [2]int32{ids[0], ids[1]})
		results = append(results, ids[2])
	}
	return merges, results
}

// maxAdded limits the number of added tokens and the total of their bytes.
const maxAdded = 1 << 20

// placeAdded returns tokens, the texts of all ids, with added_tokens in it.
func placeAdded(tokens []string, list []added.Token, vocab map[string]int32) []string {
	bytes := 0
	for i, a := range list {
		what := fmt.Sprintf("added_tokens[%d] %.40q", i, a.Content)
		bytes += len(a.Content)
		switch {
		case a.Content == "":
			fault.Raisef("%s: empty", what)
		case bytes > maxAdded:
			fault.Raisef("%s: all together are longer than %d bytes", what, maxAdded)
		case a.ID < 0 || int(a.ID) > min(2*(len(vocab)+len(list))+maxHoles, bpe.MaxIDs-1):
			fault.Raisef("%s has id %d, out of proportion to %d tokens", what, a.ID, len(vocab)+len(list))
		}
		for len(tokens) <= int(a.ID) {
			tokens = append(tokens, "")
		}
		if id, ok := vocab[a.Content]; ok && id != a.ID {
			fault.Raisef("%s has id %d, but in model.vocab it is %d", what, a.ID, id)
		}
		if old := tokens[a.ID]; old != "" && old != a.Content {
			fault.Raisef("%s has id %d, which already stands for %.60q", what, a.ID, old)
		}
		tokens[a.ID] = a.Content
	}
	return tokens
}
