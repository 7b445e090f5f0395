// Package sentencepiece makes tokenizers from models of the library SentencePiece (Kudo and Richardson,
// arXiv:1808.06226). The ids are those of that library.
package sentencepiece

import (
	"cmp"
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/normalize"
	"github.com/hippo-ssm/hippo/tokenizer/pipeline"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"github.com/hippo-ssm/hippo/tokenizer/words"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// ModelName is the name of a SentencePiece model in a model's folder.
const ModelName = "tokenizer.model"

// spSpace represents a space in SentencePiece's pieces.
const spSpace = "▁"

// Parse returns the tokenizer of a tokenizer.model, the file of the library SentencePiece, with a BPE or a unigram
// model. The ids are those of that library, with one exception: pieces of type control, such as <s>, are found in a
// text. That library never finds them. EncodeOrdinary treats them as plain characters, as that library does.
//
// The file does not specify which tokens start and end a text, so Affixes returns none.
func Parse(model []byte) (t token.Tokenizer, err error) {
	m, err := Read(model)
	if err == nil {
		t, err = m.Tokenizer(nil, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("SentencePiece model: %w", err)
	}
	return t, nil
}

// Tokenizer returns the tokenizer of a model. before and after are the ids around a text.
func (m *Model) Tokenizer(before, after []int32) (*pipeline.Tokenizer, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	t := pipeline.Spec{Type: "bpe", Before: before, After: after}
	if err := m.normalizers(&t); err != nil {
		return nil, err
	}
	vocab, bytes := map[string]int32{}, map[string]int32{} // ids of normal pieces, and of bytes
	unknown := int32(-1)
	for id, p := range m.Pieces {
		t.Tokens = append(t.Tokens, p.Text)
		added := added.Token{ID: int32(id), Content: p.Text, Special: true}
		switch p.Kind {
		case Normal:
			vocab[p.Text] = int32(id)
		case Byte:
			bytes[p.Text] = int32(id)
		case Unknown:
			unknown = int32(id)
			t.Added = append(t.Added, added)
		case Control:
			t.Added = append(t.Added, added)
		case User:
			t.User = append(t.User, added)
		}
	}
	byteID := words.ByteTokenIDs(bytes, m.Fallback)
	t.Joins = words.NewPairFilter(t.Tokens)
	if m.Unigram {
		t.Type = "unigram"
		t.Model = m.unigram(unknown, byteID)
	} else {
		t.Model = m.bpe(vocab, unknown, byteID)
	}
	t.Decoding = m.decoding()
	var made *pipeline.Tokenizer
	t.File = func() ([]byte, error) {
		return token.MarshalSection(token.Section{Kind: "sentencepiece", Model: m.Marshal(), Before: before,
			After: after, End: made.End})
	}
	f := token.NewFingerprint("sentencepiece")
	f.Text(string(m.Marshal()))
	sum := f.Sum()
	t.Sum = func() string { return sum }
	made, err := pipeline.New(t)
	return made, err
}

// normalizers sets the changes of a text before it is split (src/normalizer.cc).
func (m *Model) normalizers(t *pipeline.Spec) error {
	if len(m.Charsmap) > 0 {
		c, err := normalize.NewCharsmap(m.Charsmap)
		if err != nil {
			return err
		}
		t.Norms = append(t.Norms, c)
	}
	if m.Squeeze {
		t.Norms = append(t.Norms, normalize.SqueezeSpaces{})
	}
	if m.DummyPrefix {
		t.Norms = append(t.Norms, normalize.Prepend(" "))
	}
	if m.Escape {
		t.Norms = append(t.Norms, normalize.ReplaceText{Old: []byte(" "), New: []byte(spSpace)})
	}
	return nil
}

// decoding returns the decoding that restores spaces and bytes, and removes the space before a text.
func (m *Model) decoding() *pipeline.Decoding {
	d := &pipeline.Decoding{}
	d.Steps = append(d.Steps, func(token string, _ bool) string {
		if b, ok := words.ByteOfToken(token); ok && m.Fallback {
			return string([]byte{b})
		}
		if m.Escape {
			return strings.ReplaceAll(token, spSpace, " ")
		}
		return token
	})
	if m.DummyPrefix {
		d.Left, d.Strip = 1, " "
	}
	return d
}

// unigram returns the model of log-probabilities (src/unigram_model.cc).
func (m *Model) unigram(unknown int32, byteID [256]int32) *words.Unigram {
	u := &words.Unigram{Unknown: unknown, ByteID: byteID, Fuse: true, Narrow: true}
	least := math.Inf(1)
	var texts []string
	var ids []int32
	for id, p := range m.Pieces {
		u.Score = append(u.Score, float64(p.Score))
		if p.Kind == Normal {
			least = min(least, float64(p.Score))
			texts, ids = append(texts, p.Text), append(ids, int32(id))
		}
	}
	if len(ids) == 0 {
		least = 0
	}
	u.UnkScore = float64(float32(least - words.UnknownPenalty))
	u.Trie = words.NewTrie(texts, ids)
	return u
}

// bpe returns the model that merges the pair whose piece has the highest score (src/bpe_model.cc). A piece can be
// merged from any two pieces that form it. If scores are equal, the piece with the smaller id has priority.
func (m *Model) bpe(vocab map[string]int32, unknown int32, byteID [256]int32) *words.CharBPE {
	b := words.NewCharBPE(vocab, unknown, false)
	b.ByteID, b.Fuse = byteID, true
	order := slices.SortedFunc(maps.Values(vocab), func(x, y int32) int {
		return cmp.Or(cmp.Compare(m.Pieces[y].Score, m.Pieces[x].Score), cmp.Compare(x, y))
	})
	var pairs [][2]int32
	var ranks []uint32
	var results []int32
	for _, id := range order {
		text := m.Pieces[id].Text
		found := false
		for i := 1; i < len(text); i++ {
			if !utf8.RuneStart(text[i]) {
				continue
			}
			left, ok := vocab[text[:i]]
			right, ok2 := vocab[text[i:]]
			if ok && ok2 {
				pairs, ranks = append(pairs, [2]int32{left, right}), append(ranks, uint32(len(results)))
				found = true
			}
		}
		if found && len(results) < bpe.MaxMerges-1 {
			results = append(results, id)
		} else if found {
			break
		}
	}
	b.Table = bpe.NewRankedTable(pairs, ranks, results)
	return b
}
