package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"sync"
)

// Tokens is a sequence of token ids, or a part of one: a view of a mapped token file or of memory. It may be read by many
// goroutines at once. Using it after Close panics. A mapped file that is cut short by someone else while in use
// ends the program, as with any memory map.
type Tokens struct {
	store  *store
	lo, hi int
	owner  bool // Close closes the store

	bytesOnce sync.Once
	bytes     int64
}

// store is what the views of one token file share.
type store struct {
	header
	width int64
	ids   []byte       // tokens × width, little-endian
	table []byte       // vocab × 4: bytes of text per id; empty where not known
	unmap func() error // gives back a mapped file; nil in memory
}

// newStore cuts payload, what follows a header in a token file, into its parts.
func newStore(h *header, payload []byte) *store {
	w := width(h.vocab)
	cut := h.tokens * w
	return &store{header: *h, width: w, ids: payload[:cut:cut], table: payload[cut:]}
}

func (s *store) at(i int) int32 {
	if s.width == 2 {
		return int32(binary.LittleEndian.Uint16(s.ids[2*i:]))
	}
	return int32(binary.LittleEndian.Uint32(s.ids[4*i:]))
}

func (s *store) close() error {
	unmap := s.unmap
	s.ids, s.table, s.unmap = nil, nil, nil
	if unmap == nil {
		return nil
	}
	return unmap()
}

func (s *store) all() *Tokens { return &Tokens{store: s, hi: int(s.tokens), owner: true} }

// FromIDs makes Tokens in memory of ids below vocab, as one document, as generated data and tests need them. Each
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

// Len is the number of tokens.
func (t *Tokens) Len() int { return t.hi - t.lo }

// At is the id at position i, 0 ≤ i < Len.
func (t *Tokens) At(i int) int32 {
	if uint(i) >= uint(t.Len()) {
		panic(fmt.Sprintf("data: Tokens.At(%d) of %d tokens", i, t.Len()))
	}
	return t.store.at(t.lo + i)
}

// Read fills dst with the ids from position off on and returns how many there were: less than len(dst) at the end.
func (t *Tokens) Read(dst []int32, off int) int {
	if off < 0 || off > t.Len() {
		panic(fmt.Sprintf("data: Tokens.Read at %d of %d tokens", off, t.Len()))
	}
	n := min(len(dst), t.Len()-off)
	s, at := t.store, t.lo+off
	if s.width == 2 {
		for i, src := 0, s.ids[2*at:2*(at+n)]; i < n; i++ {
			dst[i] = int32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	} else {
		for i, src := 0, s.ids[4*at:4*(at+n)]; i < n; i++ {
			dst[i] = int32(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}
	return n
}

// Slice is the view of positions lo to hi, 0 ≤ lo ≤ hi ≤ Len. It is good until t is closed; closing the view does nothing.
func (t *Tokens) Slice(lo, hi int) *Tokens {
	if lo < 0 || hi < lo || hi > t.Len() {
		panic(fmt.Sprintf("data: Tokens.Slice(%d, %d) of %d tokens", lo, hi, t.Len()))
	}
	return &Tokens{store: t.store, lo: t.lo + lo, hi: t.lo + hi}
}

// Split cuts the tokens in two, train first: at position ⌊Len·(1−fraction)⌋, whatever document or word lies there. fraction
// lies between 0 and 1, and neither part may be empty.
func (t *Tokens) Split(fraction float64) (train, valid *Tokens, err error) {
	if !(fraction > 0 && fraction < 1) {
		return nil, nil, fmt.Errorf("data: validation fraction: found %v, want more than 0 and less than 1", fraction)
	}
	cut := int(float64(t.Len()) * (1 - fraction))
	if cut == 0 || cut == t.Len() {
		return nil, nil, fmt.Errorf("data: %d tokens are too few to set aside the fraction %v for validation: %d and %d remain, want at least 1 each",
			t.Len(), fraction, cut, t.Len()-cut)
	}
	return t.Slice(0, cut), t.Slice(cut, t.Len()), nil
}

// VocabSize is that of the tokenizer: every id is less.
func (t *Tokens) VocabSize() int { return int(t.store.vocab) }

// Documents is the number of documents in the whole corpus that t is, or is a part of.
func (t *Tokens) Documents() int64 { return t.store.documents }

// Bytes is the number of bytes of text that the tokens stand for; those put between documents stand for none. For a
// whole corpus it is exact. So it is for a part when the encoder is a Decoder and its tokens add up to the text; for
// other encoders a part has its share by number of tokens. The first call on a part counts, over the part or the rest,
// whichever is shorter.
func (t *Tokens) Bytes() int64 {
	t.bytesOnce.Do(func() { t.bytes = t.store.textBytesOf(t.lo, t.hi) })
	return t.bytes
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

// count adds up the token lengths of positions lo to hi.
func (s *store) count(lo, hi int) int64 {
	var sum int64
	for i := lo; i < hi; i++ {
		sum += int64(binary.LittleEndian.Uint32(s.table[4*s.at(i):]))
	}
	return sum
}

// Hash identifies the tokens, in hex: the corpus, the tokenizer, the id between documents and the part.
func (t *Tokens) Hash() string {
	h := sha256.New()
	fmt.Fprintf(h, "hippo tokens %d %x %x %d %d-%d", tokenVersion, t.store.content, t.store.tokenizer, t.store.endOfText, t.lo, t.hi)
	return hex.EncodeToString(h.Sum(nil))
}

// Close releases the token file, for all views of it.
func (t *Tokens) Close() error {
	if !t.owner {
		return nil
	}
	return t.store.close()
}
