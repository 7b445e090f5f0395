package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math"
)

// encodingVersion is part of every fingerprint. It increases when the same vocabulary starts to encode differently.
const encodingVersion = 1

// fingerprint hashes fields, each with its length, so that different lists of fields have different input.
type fingerprint struct{ h hash.Hash }

func newFingerprint(kind string) fingerprint {
	f := fingerprint{sha256.New()}
	f.number(encodingVersion)
	f.text(kind)
	return f
}

func (f fingerprint) number(n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	f.h.Write(b[:])
}

func (f fingerprint) text(s string) {
	f.number(len(s))
	f.h.Write([]byte(s))
}

// flags takes the flags of added tokens.
func (f fingerprint) flags(added []hfAdded) {
	f.number(len(added))
	for _, a := range added {
		f.text(fmt.Sprint(a.ID, a.SingleWord, a.LStrip, a.RStrip, a.Normalized, a.Content))
	}
}

// json takes JSON, however it is laid out.
func (f fingerprint) json(data json.RawMessage) {
	var short bytes.Buffer
	if err := json.Compact(&short, data); err != nil { // it is absent
		short.Reset()
	}
	f.text(short.String())
}

// sum is the first 16 hexadecimal digits.
func (f fingerprint) sum() string { return hex.EncodeToString(f.h.Sum(nil)[:8]) }

// fingerprint hashes all of a file that changes ids.
func (r *hfReader) fingerprint(t *pipeline) string {
	m := &r.file.Model
	f := newFingerprint(t.kind)
	f.json(r.file.Normalizer)
	f.json(r.file.PreTokenizer)
	f.flags(t.added)
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
