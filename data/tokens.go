package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Tokens is a sequence of token ids, or a part of one. It is a view of a mapped token file or of memory. Several
// goroutines may read it at once. Using it after Close panics. If another process truncates a mapped file while it is
// in use, reading returns a *LostError.
type Tokens struct {
	store  *store
	lo, hi int
	owner  bool // Close closes the store
	apart  bool // documents are separate, see Apart

	countOnce sync.Once
	bytes     int64
	bytesErr  error
}

// store holds the content of a token file. Its views share it.
type store struct {
	header
	width int64
	named [sha256.Size]byte // Corpus.namedHash of the tokens' corpus
	file  *os.File          // the mapped file, locked against eviction; nil in memory
	ids   []byte            // tokens × width, little-endian
	table []byte            // vocab × 4: bytes of text per id; empty if not known
	// starts holds the positions of the first tokens of documents, documents × 8; it is empty for one document. given
	// has a bit for each token, 1 if it is Given; it is empty if no token is.
	starts, given []byte
	unmap         func() error // unmaps the file; nil in memory
}

// newStore returns a store. payload is the content of a token file after its header.
func newStore(h *header, payload []byte) *store {
	s := &store{header: *h, width: width(h.vocab)}
	for i, part := range []*[]byte{&s.ids, &s.table, &s.starts, &s.given} {
		cut := h.parts()[i]
		*part, payload = payload[:cut:cut], payload[cut:]
	}
	return s
}

func (s *store) at(i int) int32 {
	if s.width == 2 {
		return int32(binary.LittleEndian.Uint16(s.ids[2*i:]))
	}
	return int32(binary.LittleEndian.Uint32(s.ids[4*i:]))
}

func (s *store) close() error {
	unmap, file := s.unmap, s.file
	s.ids, s.table, s.starts, s.given, s.unmap, s.file = nil, nil, nil, nil, nil, nil
	if file == nil {
		return nil
	}
	return errors.Join(unmap(), file.Close())
}

func (s *store) all() *Tokens { return &Tokens{store: s, hi: int(s.tokens), owner: true} }

// FromIDs returns Tokens in memory that hold ids, all below vocab, as one document, for generated data and tests. Each
// id counts as one byte of text.
func FromIDs(ids []int32, vocab int) (*Tokens, error) {
	h := &header{vocab: int64(vocab), endOfText: -1, documents: 1}
	w, err := newTokenWriter(h, nil)
	if err != nil {
		return nil, err
	}
	if err := w.write(ids); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	h.textBytes = int64(len(ids))
	if err := w.finish(); err != nil {
		return nil, err
	}
	h.content = sha256.Sum256(w.mem)
	return newStore(h, w.mem).all(), nil
}

// Len returns the number of tokens.
func (t *Tokens) Len() int { return t.hi - t.lo }

// LostError reports that a token file was truncated while in use. Tokenize can rebuild it from the text.
type LostError struct{ Path string }

// Error returns a message that names the lost file.
func (e *LostError) Error() string {
	return fmt.Sprintf("data: token cache %s: %v; it is made anew when the text is opened again", e.Path, disk.ErrFault)
}

// Unwrap returns disk.ErrFault.
func (e *LostError) Unwrap() error { return disk.ErrFault }

// guard calls f, which reads the store, and returns an error if the mapped file was truncated. The lost rest of a page
// reads as zeros, without a fault, so guard checks the file's size as well.
func (s *store) guard(f func()) error {
	if s.file == nil {
		f()
		return nil
	}
	if disk.Guard(f) != nil {
		return &LostError{s.file.Name()}
	}
	if info, err := s.file.Stat(); err != nil || info.Size() < headerSize+s.payload() {
		return &LostError{s.file.Name()}
	}
	return nil
}

// At returns the id at position i, 0 ≤ i < Len. It panics with a *LostError if Read would return one.
func (t *Tokens) At(i int) int32 {
	if uint(i) >= uint(t.Len()) {
		panic(fmt.Sprintf("data: Tokens.At(%d) of %d tokens", i, t.Len()))
	}
	var id int32
	if err := t.store.guard(func() { id = t.store.at(t.lo + i) }); err != nil {
		panic(err)
	}
	return id
}

// Read fills dst with the ids from position off on and returns their number, which is less than len(dst) at the end.
// The only error is a *LostError.
func (t *Tokens) Read(dst []int32, off int) (n int, err error) {
	if off < 0 || off > t.Len() {
		panic(fmt.Sprintf("data: Tokens.Read at %d of %d tokens", off, t.Len()))
	}
	dst = dst[:min(len(dst), t.Len()-off)]
	if err := t.store.guard(func() { t.store.copyTo(dst, t.lo+off) }); err != nil {
		return 0, err
	}
	return len(dst), nil
}

// copyTo fills dst with the ids from position at on.
func (s *store) copyTo(dst []int32, at int) {
	if s.width == 2 {
		src := s.ids[2*at : 2*(at+len(dst))]
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint16(src[2*i:]))
		}
		return
	}
	src := s.ids[4*at : 4*(at+len(dst))]
	for i := range dst {
		dst[i] = int32(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// Slice returns a view of the positions [lo, hi), 0 ≤ lo ≤ hi ≤ Len. It is valid until t is closed. Closing the view
// does nothing.
func (t *Tokens) Slice(lo, hi int) *Tokens {
	if lo < 0 || hi < lo || hi > t.Len() {
		panic(fmt.Sprintf("data: Tokens.Slice(%d, %d) of %d tokens", lo, hi, t.Len()))
	}
	return &Tokens{store: t.store, lo: t.lo + lo, hi: t.lo + hi, apart: t.apart}
}

// Split cuts the tokens in two, train first, at position ⌊Len·(1−fraction)⌋, regardless of words. If the tokens are
// Apart it cuts between two documents, provided that the second part gets larger or smaller by at most half. fraction
// must lie between 0 and 1, and neither part may be empty.
func (t *Tokens) Split(fraction float64) (train, valid *Tokens, err error) {
	if !(fraction > 0 && fraction < 1) {
		return nil, nil, fmt.Errorf("data: validation fraction: found %v, want more than 0 and less than 1", fraction)
	}
	cut, err := t.nearBorder(int(float64(t.Len()) * (1 - fraction)))
	if err != nil {
		return nil, nil, err
	}
	if cut == 0 || cut == t.Len() {
		return nil, nil, fmt.Errorf("data: %d tokens are too few to set aside the fraction %v for validation: "+
			"%d and %d remain, want at least 1 each", t.Len(), fraction, cut, t.Len()-cut)
	}
	return t.Slice(0, cut), t.Slice(cut, t.Len()), nil
}

// VocabSize returns the tokenizer's vocabulary size. Every id is less.
func (t *Tokens) VocabSize() int { return int(t.store.vocab) }

// Documents returns the number of documents in the whole corpus, even if t is a part of it.
func (t *Tokens) Documents() int64 { return t.store.documents }

// Bytes returns the number of bytes of text that the tokens stand for. The ids between documents stand for none. For a
// whole corpus the number is exact. For a part it is exact if the encoder is a Decoder and its tokens add up to the
// text; with other encoders a part has its share by number of tokens. The first call on a part counts over the part or
// the rest, whichever is shorter. The only error is a *LostError.
func (t *Tokens) Bytes() (int64, error) {
	t.countOnce.Do(func() {
		t.bytesErr = t.store.guard(func() { t.bytes = t.store.textBytesOf(t.lo, t.hi) })
	})
	return t.bytes, t.bytesErr
}

func (s *store) textBytesOf(lo, hi int) int64 {
	n := int(s.tokens)
	switch {
	case lo == 0 && hi == n:
		return s.textBytes
	case len(s.table) == 0:
		// textBytes·(hi−lo)/n without overflow; the high word is less than n because hi−lo < n.
		over, under := bits.Mul64(uint64(s.textBytes), uint64(hi-lo))
		q, _ := bits.Div64(over, under, uint64(n))
		return int64(q)
	case hi-lo > n/2:
		return s.textBytes - s.count(0, lo) - s.count(hi, n)
	}
	return s.count(lo, hi)
}

// count returns the sum of the token lengths at positions [lo, hi).
func (s *store) count(lo, hi int) int64 {
	var sum int64
	for i := lo; i < hi; i++ {
		sum += int64(binary.LittleEndian.Uint32(s.table[4*s.at(i):]))
	}
	return sum
}

// Hash returns a hash, in hex, of the corpus, the tokenizer, the id between documents and the part that t is.
func (t *Tokens) Hash() string { return t.hashWith(t.store.content) }

// namedHash returns the Hash of earlier versions, which included the names of files.
func (t *Tokens) namedHash() string { return t.hashWith(t.store.named) }

func (t *Tokens) hashWith(content [sha256.Size]byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "hippo tokens %d %x %x %d %d-%d", tokenVersion, content, t.store.tokenizer,
		t.store.endOfText, t.lo, t.hi)
	if t.apart {
		fmt.Fprint(h, " apart")
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Close releases the token file, for all views of it.
func (t *Tokens) Close() error {
	if !t.owner {
		return nil
	}
	return t.store.close()
}
