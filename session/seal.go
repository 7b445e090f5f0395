package session

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// An encrypted file is
//
//	16 bytes  sealMagic
//	32 bytes  salt, random
//	16 bytes  tag, which tells a wrong key from a damaged file
//	pieces    of sealPiece bytes and a shorter last one, which may be empty; each is followed by its seal of 16 bytes
//
// The key of the cipher and the tag are derived from the given key and the salt by HKDF-SHA256 (RFC 5869). The cipher
// is AES-256-GCM. The nonce of a piece is its number, with 1 in the first byte for the last piece, so no piece can be
// removed or exchanged (Hoang, Reyhanitabar, Rogaway, Vizár, CRYPTO 2015: STREAM).
const (
	sealMagic = "hippo sealed 1\r\n"
	sealSalt  = 32
	sealTag   = 16
	sealPiece = 64 << 10
)

// minKey is the minimum length of a key in bytes. The key is used directly: it must not be a password that can be
// guessed.
const minKey = 16

// sealKeys derives the cipher and the tag.
func sealKeys(key, salt []byte) (cipher.AEAD, []byte, error) {
	if len(key) < minKey {
		return nil, nil, fmt.Errorf("session: found a key of %d bytes, want at least %d random ones", len(key), minKey)
	}
	both, err := hkdf.Key(sha256.New, key, salt, "hippo session", 32+sealTag)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(both[:32])
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, both[32:], err
}

// sealNonce returns the nonce of a piece.
func sealNonce(number uint64, last bool) []byte {
	nonce := make([]byte, 12)
	if last {
		nonce[0] = 1
	}
	binary.BigEndian.PutUint64(nonce[4:], number)
	return nonce
}

// sealing is a writer that encrypts.
type sealing struct {
	w      io.Writer
	aead   cipher.AEAD
	number uint64
	piece  []byte
}

func newSealing(w io.Writer, key []byte) (*sealing, error) {
	salt := make([]byte, sealSalt)
	rand.Read(salt)
	aead, tag, err := sealKeys(key, salt)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(bytes.Join([][]byte{[]byte(sealMagic), salt, tag}, nil))
	return &sealing{w: w, aead: aead}, err
}

// Write encrypts p.
func (s *sealing) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), sealPiece-len(s.piece))
		s.piece, p = append(s.piece, p[:k]...), p[k:]
		if len(s.piece) == sealPiece {
			if err := s.put(false); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (s *sealing) put(last bool) error {
	_, err := s.w.Write(s.aead.Seal(nil, sealNonce(s.number, last), s.piece, nil))
	s.number, s.piece = s.number+1, s.piece[:0]
	return err
}

// Close ends the encryption. It does not close the underlying writer.
func (s *sealing) Close() error { return s.put(true) }

// Seal returns a writer that encrypts to w until Close. Unseal decrypts the result.
func Seal(w io.Writer, key []byte) (io.WriteCloser, error) { return newSealing(w, key) }

// Unseal decrypts what Seal wrote with the same key. It returns ErrKey for another key and ErrDamaged for changed data.
func Unseal(data, key []byte) ([]byte, error) {
	if !isSealed(data) {
		return nil, fmt.Errorf("%w: found something that is not encrypted", ErrDamaged)
	}
	return unseal(data, key)
}

// isSealed reports whether data is encrypted.
func isSealed(data []byte) bool { return bytes.HasPrefix(data, []byte(sealMagic)) }

// unseal decrypts data.
func unseal(data, key []byte) ([]byte, error) {
	if len(key) == 0 {
		return nil, fmt.Errorf("%w: the file is encrypted, want the key", ErrKey)
	}
	head := len(sealMagic) + sealSalt + sealTag
	if len(data) < head {
		return nil, fmt.Errorf("%w: found %d bytes, want at least the %d of a head", ErrDamaged, len(data), head)
	}
	salt, rest := data[len(sealMagic):][:sealSalt], data[head:]
	aead, tag, err := sealKeys(key, salt)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(tag, data[head-sealTag:head]) {
		return nil, fmt.Errorf("%w, or its first bytes are damaged", ErrKey)
	}
	out := make([]byte, 0, len(rest))
	for number := uint64(0); ; number++ {
		n := min(len(rest), sealPiece+aead.Overhead())
		last := n < sealPiece+aead.Overhead()
		out, err = aead.Open(out, sealNonce(number, last), rest[:n], nil)
		if rest = rest[n:]; err != nil {
			return nil, errors.Join(fmt.Errorf("%w: piece %d is not what was sealed", ErrDamaged, number), err)
		}
		if last {
			return out, nil
		}
	}
}
