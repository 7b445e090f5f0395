package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// Errors that report why the signature of a file is refused.
var (
	ErrUnsigned  = errors.New("it is not signed")
	ErrSignature = errors.New("its signature does not match its content")
	ErrUntrusted = errors.New("it is signed by a key that is not trusted")
)

// A signed file has a tensor signatureName before its checksum. It holds the public key, 32 bytes, and the signature of
// the content hash, 64 bytes. The content hash of a signed file is the SHA-256 of all bytes before that tensor. That of
// an unsigned file is the SHA-256 of all bytes before the checksum.
const (
	signatureName = "signature"
	signatureLen  = len(PublicKey{}) + 64
	signsSession  = "hippo session" // see PublicKey.Verify

	tailLen = signatureLen + sumLen
)

// maxHeader is the maximum length of the header of a file that a Checker reads.
const maxHeader = 16 << 20

// Checked is the result of a Checker.
type Checked struct {
	Info
	Hash   string    // the content hash, in hexadecimal digits
	Signer PublicKey // zero for an unsigned file
}

// Checker is a writer that checks the header, checksum and signature of the file of a session without storing the file.
// It does not check that the file fits a model; Decode does.
type Checker struct {
	head  []byte // the length of the header, and the header
	tail  []byte // up to tailLen bytes
	n     int64
	bytes hash.Hash // of all but the tail
	sum   summer    // likewise
}

func NewChecker() *Checker { return &Checker{bytes: sha256.New()} }

// Write takes the next part of the file.
func (c *Checker) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	for rest := p; ; {
		want := 8
		if len(c.head) >= want {
			length := binary.LittleEndian.Uint64(c.head)
			switch {
			case bytes.HasPrefix([]byte(sealMagic), c.head):
				return 0, fmt.Errorf("%w: the file is encrypted, want one that is not", ErrKey)
			case length > maxHeader:
				return 0, fmt.Errorf("%w: found a header of %d bytes, want at most %d", ErrDamaged, length, maxHeader)
			}
			want += int(length)
		}
		k := min(len(rest), want-len(c.head))
		if k == 0 {
			break
		}
		c.head, rest = append(c.head, rest[:k]...), rest[k:]
	}
	pass := max(0, len(c.tail)+len(p)-tailLen)
	first := min(pass, len(c.tail))
	c.pass(c.tail[:first])
	c.pass(p[:pass-first])
	c.tail = append(append(c.tail[:0], c.tail[first:]...), p[pass-first:]...)
	return len(p), nil
}

func (c *Checker) pass(p []byte) {
	c.bytes.Write(p)
	c.sum.add(p)
}

// Close returns the result, or the first error in the file.
func (c *Checker) Close() (x Checked, err error) {
	d := decoding{}
	text, signed, err := c.header()
	if err == nil {
		err = d.read(text)
	}
	if err != nil {
		return x, err
	}
	signature := c.tail[:signatureLen]
	hash := [32]byte(c.bytes.Sum(nil))
	c.sum.add(signature)
	if want := c.sum.sum(); !bytes.Equal(want[:], c.tail[signatureLen:]) {
		return x, fmt.Errorf("%w: the checksum of %d bytes does not match", ErrDamaged, c.n)
	}
	if !signed {
		c.bytes.Write(signature) // the last bytes of an unsigned file are ordinary content
		hash = [32]byte(c.bytes.Sum(nil))
	} else if x.Signer = PublicKey(signature); !x.Signer.Verify(signsSession, hash, signature[len(x.Signer):]) {
		return x, fmt.Errorf("%w: found the signature of %s", ErrSignature, x.Signer)
	}
	x.Info, x.Hash = d.info(), hex.EncodeToString(hash[:])
	x.Bytes = c.n
	return x, nil
}

// header returns the header of the session, and whether the file has a signature.
func (c *Checker) header() (text string, signed bool, err error) {
	damaged := func(format string, args ...any) (string, bool, error) {
		return "", false, fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
	}
	switch {
	case len(c.head) < 8 || len(c.head) < 8+int(binary.LittleEndian.Uint64(c.head)):
		return damaged("found %d bytes, and no whole header", c.n)
	case c.n < int64(len(c.head)+tailLen):
		return damaged("found %d bytes, fewer than a header, a state and a checksum take", c.n)
	}
	type span struct {
		DType   checkpoint.DType `json:"dtype"`
		Shape   []int            `json:"shape"`
		Offsets [2]int64         `json:"data_offsets"`
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(c.head[8:], &all); err != nil {
		return damaged("header: %w", err)
	}
	var meta map[string]string
	if err := json.Unmarshal(all["__metadata__"], &meta); err != nil {
		return damaged("header: __metadata__: %w", err)
	}
	if all[signatureName] != nil {
		var s span
		end := c.n - int64(len(c.head)) - sumLen
		if err := json.Unmarshal(all[signatureName], &s); err != nil {
			return damaged("header: %s: %w", signatureName, err)
		}
		if s.DType != checkpoint.U8 || s.Offsets != [2]int64{end - int64(signatureLen), end} {
			return damaged("found %q at %v, want %d bytes before the checksum", signatureName, s.Offsets, signatureLen)
		}
	}
	return meta[headerKey], all[signatureName] != nil, nil
}

// Check reads the file of a session, and checks its header, checksum and signature. An encrypted file needs its key.
func Check(path string, key []byte) (x Checked, err error) {
	err = withFile(path, func(data []byte) error {
		if isSealed(data) {
			var err error
			if data, err = unseal(data, key); err != nil {
				return err
			}
		}
		x, err = CheckBytes(data)
		return err
	})
	return x, err
}

// CheckBytes is like Check, for the contents of an unencrypted file.
func CheckBytes(data []byte) (Checked, error) {
	c := NewChecker()
	if _, err := io.Copy(c, bytes.NewReader(data)); err != nil {
		return Checked{}, err
	}
	return c.Close()
}
