package token

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
)

// encodingVersion is part of every fingerprint. It must be increased when the encoding of the same vocabulary changes.
const encodingVersion = 1

// Fingerprint hashes fields, each with its length, so that different lists of fields give different input.
type Fingerprint struct{ h hash.Hash }

func NewFingerprint(kind string) Fingerprint {
	f := Fingerprint{sha256.New()}
	f.Number(encodingVersion)
	f.Text(kind)
	return f
}

func (f Fingerprint) Number(n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	f.h.Write(b[:])
}

func (f Fingerprint) Text(s string) {
	f.Number(len(s))
	f.h.Write([]byte(s))
}

// Json hashes JSON, regardless of its layout.
func (f Fingerprint) Json(data json.RawMessage) {
	var short bytes.Buffer
	if err := json.Compact(&short, data); err != nil { // data is absent
		short.Reset()
	}
	f.Text(short.String())
}

// Sum returns the first 16 hexadecimal digits of the hash.
func (f Fingerprint) Sum() string { return hex.EncodeToString(f.h.Sum(nil)[:8]) }
