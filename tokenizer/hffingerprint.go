package tokenizer

import (
	"fmt"
	"math"
)

// fingerprint hashes all of a file that changes ids.
func (r *hfReader) fingerprint(t *pipeSpec) string {
	m := &r.file.Model
	f := newFingerprint(t.kind)
	f.json(r.file.Normalizer)
	f.json(r.file.PreTokenizer)
	addFlags(f, t.added)
	f.number(len(t.tokens))
	for _, token := range t.tokens {
		f.text(token)
	}
	for _, score := range m.Vocab.scores {
		f.number(int(math.Float64bits(score)))
	}
	for _, merge := range m.Merges {
		f.text(merge[0])
		f.text(merge[1])
	}
	unknown := int32(-1)
	switch model := t.model.(type) {
	case *charBPE:
		unknown = model.unknown
		f.text(fmt.Sprint(model.fuse))
	case *unigram:
		unknown = model.unknown
		f.text(fmt.Sprint(model.fuse))
	}
	f.text(fmt.Sprint(unknown, m.ByteFallback, m.IgnoreMerges))
	return f.sum()
}

// addFlags takes the flags of added tokens.
func addFlags(f fingerprint, added []hfAdded) {
	f.number(len(added))
	for _, a := range added {
		f.text(fmt.Sprint(a.ID, a.SingleWord, a.LStrip, a.RStrip, a.Normalized, a.Content))
	}
}
