package data

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// The token file, version 1. All numbers are little-endian; crc32c is the Castagnoli polynomial.
//
//	offset  size
//	     0     8  "HIPPOTOK"
//	     8     4  version, 1
//	    12     4  bytes per token: 2 where vocab_size ≤ 65536, else 4
//	    16     8  number of tokens
//	    24     8  number of documents
//	    32     8  vocab_size
//	    40     8  bytes of text that the tokens stand for
//	    48     8  id put between documents, −1 for none
//	    56    32  hash of the corpus (Corpus.Hash)
//	    88    32  SHA-256 of the tokenizer's fingerprint
//	   120     4  which tables follow the tokens: 1 token lengths, 2 documents, 4 given, or a sum of these
//	   124     4  crc32c of everything after the header
//	   128     4  crc32c of the header before this
//	   132        tokens, then the tables in this order
//
// Token lengths: for each id the bytes of text it stands for, 4 bytes each. Documents: the position of the first token
// of each, 8 bytes each; only with two or more documents. Given: a bit for each token, the lowest bit of a byte first,
// 1 if the token is not a target (see Part).
//
// The two checksums detect accidental damage (bit rot, incomplete copies). They do not protect against forgery.

const (
	tokenMagic   = "HIPPOTOK"
	tokenVersion = 1
	headerSize   = 132

	maxVocab  = 1 << 26
	maxTokens = math.MaxInt / 32 // together with maxVocab keeps file sizes far from overflow, even on 32-bit machines
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type header struct {
	tokens    int64
	documents int64
	vocab     int64
	textBytes int64
	endOfText int64 // −1: none
	content   [sha256.Size]byte
	tokenizer [sha256.Size]byte
	lengths   bool   // whether there is the table of token lengths
	borders   bool   // whether there is the table of documents
	given     bool   // whether there is the table of given tokens
	crc       uint32 // crc32c of tokens and tables
}

// width returns the number of bytes per token.
func width(vocab int64) int64 {
	if vocab <= 1<<16 {
		return 2
	}
	return 4
}

// payload returns the number of bytes after the header. parseHeader has checked that it cannot overflow.
func (h *header) payload() int64 {
	n := int64(0)
	for _, part := range h.parts() {
		n += part
	}
	return n
}

// parts returns the number of bytes of the tokens and of each table.
func (h *header) parts() (n [4]int64) {
	n[0] = h.tokens * width(h.vocab)
	if h.lengths {
		n[1] = 4 * h.vocab
	}
	if h.borders {
		n[2] = 8 * h.documents
	}
	if h.given {
		n[3] = (h.tokens + 7) / 8
	}
	return n
}

// The bits of the header that mark which tables follow.
const (
	withLengths = 1 << iota
	withBorders
	withGiven
)

func (h *header) marshal() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, headerSize)
	b = append(b, tokenMagic...)
	b = le.AppendUint32(b, tokenVersion)
	b = le.AppendUint32(b, uint32(width(h.vocab)))
	for _, v := range []int64{h.tokens, h.documents, h.vocab, h.textBytes, h.endOfText} {
		b = le.AppendUint64(b, uint64(v))
	}
	b = append(b, h.content[:]...)
	b = append(b, h.tokenizer[:]...)
	tables := uint32(0)
	for bit, there := range map[uint32]bool{withLengths: h.lengths, withBorders: h.borders, withGiven: h.given} {
		if there {
			tables |= bit
		}
	}
	b = le.AppendUint32(b, tables)
	b = le.AppendUint32(b, h.crc)
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseHeader decodes a header, checks it, and compares it with the size of its file.
func parseHeader(b []byte, fileSize int64) (*header, error) {
	le := binary.LittleEndian
	if len(b) < headerSize {
		return nil, fmt.Errorf("found %d bytes, want a header of %d", len(b), headerSize)
	}
	if string(b[:8]) != tokenMagic {
		return nil, fmt.Errorf("magic: found %q, want %q", b[:8], tokenMagic)
	}
	if v := le.Uint32(b[8:]); v != tokenVersion {
		return nil, fmt.Errorf("version: found %d, want %d", v, tokenVersion)
	}
	if got, want := le.Uint32(b[128:]), crc32.Checksum(b[:128], castagnoli); got != want {
		return nil, fmt.Errorf("header checksum: found %08x, want %08x", got, want)
	}
	h := &header{
		tokens:    int64(le.Uint64(b[16:])),
		documents: int64(le.Uint64(b[24:])),
		vocab:     int64(le.Uint64(b[32:])),
		textBytes: int64(le.Uint64(b[40:])),
		endOfText: int64(le.Uint64(b[48:])),
		content:   [sha256.Size]byte(b[56:]),
		tokenizer: [sha256.Size]byte(b[88:]),
		lengths:   le.Uint32(b[120:])&withLengths != 0,
		borders:   le.Uint32(b[120:])&withBorders != 0,
		given:     le.Uint32(b[120:])&withGiven != 0,
		crc:       le.Uint32(b[124:]),
	}
	switch {
	case h.vocab < 1 || h.vocab > maxVocab:
		return nil, fmt.Errorf("vocab_size: found %d, want 1 to %d", h.vocab, maxVocab)
	case int64(le.Uint32(b[12:])) != width(h.vocab):
		return nil, fmt.Errorf("bytes per token: found %d, want %d for a vocab_size of %d",
			le.Uint32(b[12:]), width(h.vocab), h.vocab)
	case h.tokens < 1 || h.tokens > maxTokens:
		return nil, fmt.Errorf("tokens: found %d, want 1 to %d", h.tokens, int64(maxTokens))
	case h.documents < 1 || h.documents > maxTokens || h.textBytes < 0:
		return nil, fmt.Errorf("found %d documents of %d bytes, want 1 to %d of at least 0",
			h.documents, h.textBytes, int64(maxTokens))
	case h.endOfText < -1 || h.endOfText >= h.vocab:
		return nil, fmt.Errorf("end-of-text id: found %d, want −1 to %d", h.endOfText, h.vocab-1)
	case le.Uint32(b[120:]) > withLengths|withBorders|withGiven:
		return nil, fmt.Errorf("tables: found %d, want at most %d", le.Uint32(b[120:]),
			withLengths|withBorders|withGiven)
	case headerSize+h.payload() != fileSize:
		return nil, fmt.Errorf("file size: found %d bytes, want %d for %d tokens", fileSize,
			headerSize+h.payload(), h.tokens)
	}
	return h, nil
}

// errOther reports that a token file is valid, but for other data or another tokenizer.
var errOther = errors.New("made from other data or by another tokenizer")

// openTokenFile maps a token file into memory. Its content, tokenizer and end-of-text id must be those of want. If
// verified is true, the checksum was verified before and the file has not changed since.
func openTokenFile(path string, want *header, verified bool) (*store, error) {
	for tries := 1; ; tries++ {
		f, err := os.Open(path)
		if err != nil {
			return nil, err // the error names the file
		}
		s, err := mapTokens(f, want, verified)
		if err == nil {
			return s, nil
		}
		f.Close() // it was only read
		if !errors.Is(err, errMoved) || tries == 1000 {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// errMoved reports that another process is replacing or removing the token file at this moment.
var errMoved = errors.New("another process is replacing it")

// use locks a token file for as long as it is open, so that it is not evicted. The error is errMoved if the file cannot
// be locked or is no longer, or not yet, the one at its path.
func use(f *os.File) error {
	shared, err := disk.TryLock(f, true)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err == nil && (!shared || !disk.IsAt(f, f.Name())):
		return errMoved
	}
	return err
}

func mapTokens(f *os.File, want *header, verified bool) (*store, error) {
	if err := use(f); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(headerSize, info.Size()))
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	h, err := parseHeader(b, info.Size())
	if err != nil {
		return nil, err
	}
	if h.content != want.content || h.tokenizer != want.tokenizer || h.endOfText != want.endOfText ||
		h.vocab != want.vocab || h.given != want.given {
		return nil, errOther
	}
	if h.documents > 1 && !h.borders {
		return nil, errors.New("made by an earlier version, without the borders of its documents")
	}
	m, err := disk.Map(f, int(info.Size()))
	if err != nil {
		return nil, fmt.Errorf("map into memory: %w", err)
	}
	s := newStore(h, m.Data[headerSize:])
	s.file, s.unmap = f, m.Close
	if !verified {
		var bad error
		if err := s.guard(func() { bad = s.verify() }); cmp.Or(err, bad) != nil {
			return nil, errors.Join(err, bad, m.Close())
		}
	}
	return s, nil
}

// verify checks, in one pass, the checksum of tokens and tables, that every id is in the vocabulary, and that documents
// are in order.
func (s *store) verify() error {
	const block = 1 << 18 // tokens
	n, w := int(s.tokens), int(s.width)
	crc := uint32(0)
	for lo := 0; lo < n; lo += block {
		hi := min(lo+block, n)
		crc = crc32.Update(crc, castagnoli, s.ids[lo*w:hi*w])
		for i := lo; i < hi; i++ {
			if id := s.at(i); id < 0 || int64(id) >= s.vocab {
				return fmt.Errorf("token %d: found id %d, want 0 to %d", i, id, s.vocab-1)
			}
		}
	}
	for _, table := range [][]byte{s.table, s.starts, s.given} {
		crc = crc32.Update(crc, castagnoli, table)
	}
	if crc != s.crc {
		return fmt.Errorf("checksum of tokens: found %08x, want %08x", crc, s.crc)
	}
	return s.verifyStarts()
}

// verifyStarts checks that documents are in order, with room for the id between them.
func (s *store) verifyStarts() error {
	if len(s.starts) == 0 {
		return nil
	}
	least := uint64(0)
	for i := range int(s.documents) {
		at := binary.LittleEndian.Uint64(s.starts[8*i:])
		if at < least || at > uint64(s.tokens) || i == 0 && at > 0 {
			return fmt.Errorf("document %d: found it at token %d, want %d to %d", i, at, least, s.tokens)
		}
		if least = at; s.endOfText >= 0 {
			least++
		}
	}
	return nil
}
