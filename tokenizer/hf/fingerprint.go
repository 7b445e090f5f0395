package hf

import (
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/pipeline"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"github.com/hippo-ssm/hippo/tokenizer/words"
	"math"
)

// fingerprint hashes everything in a file that affects ids.
func (r *reader) fingerprint(t *pipeline.Spec) string {
	m := &r.file.Model
	f := token.NewFingerprint(t.Type)
	f.Json(r.file.Normalizer)
	f.Json(r.file.PreTokenizer)
	addFlags(f, t.Added)
	f.Number(len(t.Tokens))
	for _, token := range t.Tokens {
		f.Text(token)
	}
	for _, score := range m.Vocab.scores {
		f.Number(int(math.Float64bits(score)))
	}
	for _, merge := range m.Merges {
		f.Text(merge[0])
		f.Text(merge[1])
	}
	unknown := int32(-1)
	switch model := t.Model.(type) {
	case *words.CharBPE:
		unknown = model.Unknown
		f.Text(fmt.Sprint(model.Fuse))
	case *words.Unigram:
		unknown = model.Unknown
		f.Text(fmt.Sprint(model.Fuse))
	}
	f.Text(fmt.Sprint(unknown, m.ByteFallback, m.IgnoreMerges))
	return f.Sum()
}

// addFlags hashes the flags of added tokens.
func addFlags(f token.Fingerprint, added []added.Token) {
	f.Number(len(added))
	for _, a := range added {
		f.Text(fmt.Sprint(a.ID, a.SingleWord, a.LStrip, a.RStrip, a.Normalized, a.Content))
	}
}
