package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
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
