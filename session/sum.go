package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// A file ends with a checksum of all bytes before it: the SHA-256 of the CRC-32C of each of its blocks.
const (
	sumBlock = 64 << 10
	sumLen   = sha256.Size

	sumsAtOnce = 16 // blocks per core at a time
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summer computes the checksum of the bytes that it is given.
type summer struct {
	sums []byte
	part uint32 // of the last block
	n    int    // bytes of the last block
}

func (s *summer) add(b []byte) {
	for len(b) > 0 {
		k := min(len(b), sumBlock-s.n)
		s.part, s.n, b = crc32.Update(s.part, castagnoli, b[:k]), s.n+k, b[k:]
		if s.n == sumBlock {
			s.end()
		}
	}
}

func (s *summer) end() {
	s.sums = binary.LittleEndian.AppendUint32(s.sums, s.part)
	s.part, s.n = 0, 0
}

func (s *summer) sum() [sumLen]byte {
	s.end()
	return sha256.Sum256(s.sums)
}

// summing is a writer that replaces the signature and the checksum at the end of a file. The file it receives has
// placeholders for them.
type summing struct {
	w      io.Writer
	signer *Signer   // nil: the file is not signed
	bytes  hash.Hash // of the bytes before the signature, of a signed file
	sum    summer
	last   []byte // the last bytes written, up to the number that is replaced
}

func (s *summing) Write(p []byte) (int, error) {
	end := sumLen
	if s.signer != nil {
		end = tailLen
	}
	pass := max(0, len(s.last)+len(p)-end) // bytes that are not among the last
	first := min(pass, len(s.last))
	for _, part := range [][]byte{s.last[:first], p[:pass-first]} {
		if err := s.pass(part); err != nil {
			return 0, err
		}
	}
	s.last = append(append(s.last[:0], s.last[first:]...), p[pass-first:]...)
	return len(p), nil
}

func (s *summing) pass(part []byte) error {
	s.sum.add(part)
	if s.signer != nil {
		s.bytes.Write(part)
	}
	_, err := s.w.Write(part)
	return err
}

// close writes the signature, if there is a signer, and the checksum. It returns the content hash of a signed file.
func (s *summing) close() (hash [32]byte, err error) {
	if s.signer != nil {
		hash = [32]byte(s.bytes.Sum(nil))
		key, err := s.signer.Public()
		if err != nil {
			return hash, err
		}
		signature, err := s.signer.Sign(signsSession, hash)
		if err != nil {
			return hash, err
		}
		if err := s.pass(append(key[:], signature...)); err != nil {
			return hash, err
		}
	}
	sum := s.sum.sum()
	_, err = s.w.Write(sum[:])
	return hash, err
}

// checkSum returns an error unless data ends with the checksum of all bytes before it.
func checkSum(data []byte) error {
	n := len(data) - sumLen
	if n < 0 {
		return fmt.Errorf("%w: found %d bytes, want at least the %d of a checksum", ErrDamaged, len(data), sumLen)
	}
	blocks := (n + sumBlock - 1) / sumBlock
	sums := make([]byte, 4*blocks)
	err := each((blocks+sumsAtOnce-1)/sumsAtOnce, func(i int) error {
		for b := i * sumsAtOnce; b < min(blocks, (i+1)*sumsAtOnce); b++ {
			part := data[b*sumBlock : min(n, (b+1)*sumBlock)]
			binary.LittleEndian.PutUint32(sums[4*b:], crc32.Checksum(part, castagnoli))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	s := summer{sums: sums}
	if n%sumBlock > 0 {
		s.sums, s.part = sums[:4*(blocks-1)], binary.LittleEndian.Uint32(sums[4*(blocks-1):])
	}
	if want := s.sum(); !bytes.Equal(want[:], data[n:]) {
		return fmt.Errorf("%w: the checksum of %d bytes does not match", ErrDamaged, len(data))
	}
	return nil
}
