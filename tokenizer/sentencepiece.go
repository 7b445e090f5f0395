package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// ModelName is the name of a SentencePiece model in a model's folder.
const ModelName = "tokenizer.model"

// spSpace stands for a space in the pieces of SentencePiece.
const spSpace = "▁"

// SentencePiece makes the tokenizer of a tokenizer.model, the file of the library SentencePiece (Kudo and Richardson,
// arXiv:1808.06226), with a BPE or a unigram model. Ids are those of that library, and of the pieces of type control,
// such as <s>, which that library never finds in a text: EncodeOrdinary takes them for plain characters, as it does.
//
// The file does not say which tokens begin and end a text, so Affixes has none.
func SentencePiece(model []byte) (Tokenizer, error) {
	t, err := parseSentencePiece(model)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

// parseSentencePiece is SentencePiece for a caller that names the file.
func parseSentencePiece(model []byte) (Tokenizer, error) {
	m, err := readSPModel(model)
	if err != nil {
		return nil, fmt.Errorf("SentencePiece model: %w", err)
	}
	t, err := m.tokenizer(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("SentencePiece model: %w", err)
	}
	return t, nil
}

// tokenizer makes the tokenizer of a model, with the ids around a text.
func (m *spModel) tokenizer(before, after []int32) (*pipeline, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	t := pipeSpec{kind: "bpe", before: before, after: after}
	if err := m.normalizers(&t); err != nil {
		return nil, err
	}
	vocab, bytes := map[string]int32{}, map[string]int32{} // of normal pieces, and of bytes
	unknown := int32(-1)
	for id, p := range m.Pieces {
		t.tokens = append(t.tokens, p.text)
		added := hfAdded{ID: int32(id), Content: p.text, Special: true}
		switch p.kind {
		case spNormal:
			vocab[p.text] = int32(id)
		case spByte:
			bytes[p.text] = int32(id)
		case spUnknown:
			unknown = int32(id)
			t.added = append(t.added, added)
		case spControl:
			t.added = append(t.added, added)
		case spUser:
			t.user = append(t.user, added)
		}
	}
	byteID := byteTokenIDs(bytes, m.Fallback)
	t.joins = newPairFilter(t.tokens)
	if m.Unigram {
		t.kind = "unigram"
		t.model = m.unigram(unknown, byteID)
	} else {
		t.model = m.bpe(vocab, unknown, byteID)
	}
	t.decoding = m.decoding()
	var made *pipeline
	t.file = func() ([]byte, error) {
		return marshalOwn(ownSection{Kind: "sentencepiece", Model: m.marshal(), Before: before, After: after,
			End: made.end})
	}
	f := newFingerprint("sentencepiece")
	f.text(string(m.marshal()))
	sum := f.sum()
	t.print = func() string { return sum }
	made, err := newPipeline(t)
	return made, err
}

// normalizers sets what happens to a text before it is cut (src/normalizer.cc).
func (m *spModel) normalizers(t *pipeSpec) error {
	if len(m.Charsmap) > 0 {
		c, err := newCharsmap(m.Charsmap)
		if err != nil {
			return err
		}
		t.norms = append(t.norms, c)
	}
	if m.Squeeze {
		t.norms = append(t.norms, squeezeSpaces{})
	}
	if m.DummyPrefix {
		t.norms = append(t.norms, prepend(" "))
	}
	if m.Escape {
		t.norms = append(t.norms, replaceText{[]byte(" "), []byte(spSpace)})
	}
	return nil
}

// decoding writes spaces and bytes, and drops the space before a text.
func (m *spModel) decoding() *decoding {
	d := &decoding{}
	d.steps = append(d.steps, func(token string, _ bool) string {
		if b, ok := byteOfToken(token); ok && m.Fallback {
			return string([]byte{b})
		}
		if m.Escape {
			return strings.ReplaceAll(token, spSpace, " ")
		}
		return token
	})
	if m.DummyPrefix {
		d.left, d.strip = 1, " "
	}
	return d
}

// unigram makes the model of log-probabilities (src/unigram_model.cc).
func (m *spModel) unigram(unknown int32, byteID [256]int32) *unigram {
	u := &unigram{unknown: unknown, byteID: byteID, fuse: true, narrow: true}
	least := math.Inf(1)
	var texts []string
	var ids []int32
	for id, p := range m.Pieces {
		u.score = append(u.score, float64(p.score))
		if p.kind == spNormal {
			least = min(least, float64(p.score))
			texts, ids = append(texts, p.text), append(ids, int32(id))
		}
	}
	if len(ids) == 0 {
		least = 0
	}
	u.unkScore = float64(float32(least - unknownPenalty))
	u.trie = newTrie(texts, ids)
	return u
}

// bpe makes the model that merges the pair whose piece has the highest score (src/bpe_model.cc). A piece is merged from
// any two pieces that it consists of. Of equal scores the piece of the smaller id counts as higher.
func (m *spModel) bpe(vocab map[string]int32, unknown int32, byteID [256]int32) *charBPE {
	b := newCharBPE(vocab, unknown, false)
	b.byteID, b.fuse = byteID, true
	order := make([]int32, 0, len(vocab))
	for _, id := range vocab {
		order = append(order, id)
	}
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(m.Pieces[y].score, m.Pieces[x].score), cmp.Compare(x, y))
	})
	var pairs [][2]int32
	var ranks []uint32
	var results []int32
	for _, id := range order {
		text := m.Pieces[id].text
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
		if found && len(results) < maxMerges-1 {
			results = append(results, id)
		} else if found {
			break
		}
	}
	b.table = newRankedTable(pairs, ranks, results)
	return b
}
