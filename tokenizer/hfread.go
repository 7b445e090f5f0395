package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// This file, hfsplit.go and hfpipeline.go read Hugging Face's tokenizer.json; hfwrite.go writes it for byte-level BPE.
// The format has no description other than the library that writes it, github.com/huggingface/tokenizers.

// hfFile is the structure of the file.
type hfFile struct {
	// set in a file that Save wrote for another kind; the other fields are then absent
	Hippo       *ownSection `json:"hippo"`
	AddedTokens []hfAdded   `json:"added_tokens"`
	hfSettings
	Model hfModel `json:"model"`
}

type hfModel struct {
	Type         *string   `json:"type"` // absent in files of GPT-2's time
	Dropout      *float64  `json:"dropout"`
	Prefix       *string   `json:"continuing_subword_prefix"`
	Suffix       *string   `json:"end_of_word_suffix"`
	Unk          *string   `json:"unk_token"` // BPE
	UnkID        *int32    `json:"unk_id"`    // Unigram
	FuseUnk      *bool     `json:"fuse_unk"`
	ByteFallback bool      `json:"byte_fallback"`
	IgnoreMerges bool      `json:"ignore_merges"`
	Vocab        hfVocab   `json:"vocab"`
	Merges       []hfMerge `json:"merges"`
}

// hfVocab is the vocabulary: ids by text or, of a unigram model, a list of texts with their scores.
type hfVocab struct {
	ids    map[string]int32
	scores []float64 // nil for none
}

func (v *hfVocab) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, &v.ids)
	}
	var list []hfScored
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	v.ids = make(map[string]int32, len(list))
	for id, piece := range list {
		if old, ok := v.ids[piece.text]; ok {
			return fmt.Errorf("model.vocab: ids %d and %d are both %.60q", old, id, piece.text)
		}
		v.ids[piece.text] = int32(id)
		v.scores = append(v.scores, piece.score)
	}
	return nil
}

// hfScored is ["text",-1.5].
type hfScored struct {
	text  string
	score float64
}

func (s *hfScored) UnmarshalJSON(data []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("model.vocab: found %.60q, want a text and its score", data)
	}
	return errors.Join(json.Unmarshal(pair[0], &s.text), json.Unmarshal(pair[1], &s.score))
}

// hfMerge is a pair of tokens: "a b" or, in newer files, ["a","b"].
type hfMerge [2]string

func (m *hfMerge) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		var pair []string
		if err := json.Unmarshal(data, &pair); err != nil {
			return fmt.Errorf("a merge: %w", err)
		}
		if len(pair) != 2 {
			return fmt.Errorf("a merge of %d tokens, want 2", len(pair))
		}
		*m = hfMerge(pair)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a merge: %w", err)
	}
	var err error
	*m, err = parseMerge(text)
	return err
}

// parseMerge reads "a b".
func parseMerge(text string) (hfMerge, error) {
	left, right, _ := strings.Cut(text, " ")
	if left == "" || right == "" || strings.Contains(right, " ") {
		return hfMerge{}, fmt.Errorf("merge %.60q, want two tokens with a space between", text)
	}
	return hfMerge{left, right}, nil
}

// parseHuggingFace checks a tokenizer.json in Hugging Face's format and makes a tokenizer of it.
func parseHuggingFace(file *hfFile, data []byte) (Tokenizer, error) {
	if err := file.Model.check(); err != nil {
		return nil, err
	}
	r := hfReader{file: file, work: maxRegexWork}
	if err := r.read(); err != nil {
		return nil, err
	}
	plain := isBPE(&file.Model) && !file.Model.ByteFallback && isByteLevel(r.decoder)
	patterns, prefixSpace, classic, err := classicSplits(r.splits)
	if err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if !plain || !classic {
		return r.pipeline(data)
	}
	spec := bpeSpec{kind: "bpe", file: file.hfSettings, patterns: patterns, prefixSpace: prefixSpace,
		before: r.before, after: r.after}
	if err := setVocab(&spec, &file.Model); err != nil {
		return nil, err
	}
	if spec.merges, spec.results, err = file.Model.mergeIDs(true); err != nil {
		return nil, err
	}
	if spec.tokens, err = placeAdded(spec.tokens, file.AddedTokens, file.Model.Vocab.ids); err != nil {
		return nil, err
	}
	spec.added = file.AddedTokens
	t, err := newBPE(spec)
	if err == nil {
		err = checkAffixes(t.before, t.after, len(t.tokens))
	}
	if err != nil {
		return nil, err
	}
	if len(r.norms) == 0 && !slices.ContainsFunc(file.AddedTokens, hfAdded.hasFlags) {
		return t, nil
	}
	return r.aroundBPE(t)
}

// isBPE tells whether a model is BPE.
func isBPE(m *hfModel) bool { return m.Type == nil || *m.Type == "BPE" }

// check refuses models that encode in a way that is not supported.
func (m *hfModel) check() error {
	switch {
	case !isBPE(m) && *m.Type != "Unigram":
		return fmt.Errorf("model.type is %.60q, want BPE or Unigram", *m.Type)
	case len(m.Vocab.ids) == 0:
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

// maxHoles bounds the ids without a token: there may be this many more than there are tokens.
const maxHoles = 1 << 16

// texts is the text of each id in model.vocab, "" for those not in it.
func (m *hfModel) texts() ([]string, error) {
	type entry struct {
		id   int32
		text string
	}
	var entries []entry // sorted, so that the same file gives the same error
	for text, id := range m.Vocab.ids {
		entries = append(entries, entry{id, text})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.text, b.text))
	})
	most := int32(min(2*len(entries)+maxHoles, maxIDs-1))
	var texts []string
	for _, e := range entries {
		switch {
		case e.text == "":
			return nil, fmt.Errorf("model.vocab: the token of id %d is empty", e.id)
		case e.id < 0 || e.id > most:
			return nil, fmt.Errorf("model.vocab: %.60q has id %d, want 0 to %d for %d tokens",
				e.text, e.id, most, len(entries))
		case int(e.id) < len(texts):
			return nil, fmt.Errorf("model.vocab: %.60q and %.60q both have id %d", texts[e.id], e.text, e.id)
		}
		for len(texts) < int(e.id) {
			texts = append(texts, "")
		}
		texts = append(texts, e.text)
	}
	return texts, nil
}

// setVocab sets tokens and byteID from model.vocab.
func setVocab(s *bpeSpec, m *hfModel) (err error) {
	if s.file.vocab, err = m.texts(); err != nil {
		return err
	}
	if m.IgnoreMerges {
		s.words = make(map[string]int32, len(m.Vocab.ids))
	}
	for id, text := range s.file.vocab {
		// A token that is not written in byte characters, such as a special one, stands for its own text. No merge
		// leads to it.
		token, ok := fromChars(text)
		if !ok {
			token = text
		} else if s.words != nil && text != "" {
			s.words[token] = int32(id)
		}
		s.tokens = append(s.tokens, token)
	}
	for b, char := range byteChar {
		id, ok := m.Vocab.ids[string(char)]
		if !ok {
			id = -1
		}
		s.byteID[b] = id
	}
	return nil
}

// mergeIDs is model.merges by ids, and what they become. With inBytes it leaves out merges of tokens with a space.
func (m *hfModel) mergeIDs(inBytes bool) (merges [][2]int32, results []int32, err error) {
	if len(m.Merges) > maxMerges {
		return nil, nil, fmt.Errorf("model.merges: %d merges, want at most %d", len(m.Merges), maxMerges)
	}
	for rank, merge := range m.Merges {
		if inBytes && strings.Contains(merge[0]+merge[1], " ") {
			continue // a space is never written as itself in byte characters, so no text leads to this merge
		}
		var ids [3]int32
		for i, text := range []string{merge[0], merge[1], merge[0] + merge[1]} {
			id, ok := m.Vocab.ids[text]
			if !ok {
				return nil, nil, fmt.Errorf("model.merges[%d] is %.60q and %.60q, but %.60q is not in model.vocab",
					rank, merge[0], merge[1], text)
			}
			ids[i] = id
		}
		merges = append(merges, [2]int32{ids[0], ids[1]})
		results = append(results, ids[2])
	}
	return merges, results, nil
}

// maxAdded bounds the number of added tokens and their bytes.
const maxAdded = 1 << 20

// placeAdded puts added_tokens into the texts of all ids.
func placeAdded(tokens []string, list []hfAdded, vocab map[string]int32) ([]string, error) {
	bytes := 0
	for i, a := range list {
		what := fmt.Sprintf("added_tokens[%d] %.40q", i, a.Content)
		bytes += len(a.Content)
		switch {
		case a.Content == "":
			return nil, fmt.Errorf("%s: empty", what)
		case bytes > maxAdded:
			return nil, fmt.Errorf("%s: all together are longer than %d bytes", what, maxAdded)
		case a.ID < 0 || int(a.ID) > min(2*(len(vocab)+len(list))+maxHoles, maxIDs-1):
			return nil, fmt.Errorf("%s has id %d, out of proportion to %d tokens", what, a.ID, len(vocab)+len(list))
		}
		for len(tokens) <= int(a.ID) {
			tokens = append(tokens, "")
		}
		if id, ok := vocab[a.Content]; ok && id != a.ID {
			return nil, fmt.Errorf("%s has id %d, but in model.vocab it is %d", what, a.ID, id)
		}
		if old := tokens[a.ID]; old != "" && old != a.Content {
			return nil, fmt.Errorf("%s has id %d, which already stands for %.60q", what, a.ID, old)
		}
		tokens[a.ID] = a.Content
	}
	return tokens, nil
}
