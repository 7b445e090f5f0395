package data

import (
	"encoding/binary"
	"math/bits"
	"sort"
)

// Ignore is the target at a position without one, the same as engine.Ignore.
const Ignore int32 = -1

// Part is a piece of a document.
type Part struct {
	Text string
	// Given marks a part that is only read, such as a question: its tokens are inputs, not targets. The Given of the
	// last part, even if that part is empty, also applies to the id after the document.
	Given bool
}

// ChatReader turns the lines of FormatChat into documents.
type ChatReader interface {
	// Read returns the documents of a JSON object with the fields of a chat. Their parts are encoded separately, so
	// that each part starts with a new token, as a generated reply does.
	Read(object []byte) ([][]Part, error)
	// Fingerprint returns a string that differs between any two readers that could return different documents for some
	// line.
	Fingerprint() string
}

// Apart returns a view of the same tokens with separate documents: a Loader and Windows report where documents start,
// and no target lies in another document than its input. If there is an id between two documents, it ends the first and
// begins the second, so that each of its two pairs lies in one document. Without such an id, or if some parts are
// Given, a document begins with its first token, which is then not a target.
//
// Tokens of a single document are unchanged.
func (t *Tokens) Apart() *Tokens {
	return &Tokens{store: t.store, lo: t.lo, hi: t.hi, owner: t.owner, apart: len(t.store.starts) > 0}
}

// IsApart reports whether t is a view made by Apart of several documents.
func (t *Tokens) IsApart() bool { return t.apart }

// Given reports whether some parts of the text are Given, see Part.
func (t *Tokens) Given() bool { return len(t.store.given) > 0 }

// IsGiven reports whether the token at position i is in a part that is Given. It panics like At.
func (t *Tokens) IsGiven(i int) bool {
	t.At(i) // checks the position
	given := false
	if err := t.store.guard(func() { given = t.store.isGiven(t.lo + i) }); err != nil {
		panic(err)
	}
	return given
}

// Document returns the range [lo, hi) of document i, 0 ≤ i < Documents, in the tokens of the whole corpus. The id
// between documents belongs to none.
func (t *Tokens) Document(i int) (lo, hi int, err error) {
	s := t.store
	if hi = int(s.tokens); len(s.starts) == 0 {
		return 0, hi, nil
	}
	err = s.guard(func() {
		lo = s.start(i)
		if int64(i+1) < s.documents {
			if hi = s.start(i + 1); s.endOfText >= 0 {
				hi--
			}
		}
	})
	return lo, hi, err
}

// start returns the position of the first token of document i.
func (s *store) start(i int) int { return int(binary.LittleEndian.Uint64(s.starts[8*i:])) }

// leads reports whether the id between two documents is the first input of the second.
func (s *store) leads() bool { return s.endOfText >= 0 && len(s.given) == 0 }

// border returns the position of the first input of document i > 0.
func (s *store) border(i int) int {
	if s.leads() {
		return s.start(i) - 1
	}
	return s.start(i)
}

// firstBorder returns the first document after the first one whose border is at position lo or later.
func (s *store) firstBorder(lo int) int {
	n := int(s.documents)
	return 1 + sort.Search(n-1, func(i int) bool { return s.border(i+1) >= lo })
}

// isGiven reports whether the token at a position is in a part that is Given.
func (s *store) isGiven(at int) bool { return s.given[at/8]>>(at%8)&1 != 0 }

// borders appends to at the positions in [0, n), relative to from, at which inputs of another document begin.
func (t *Tokens) borders(at []int, from, n int) (_ []int, err error) {
	if !t.apart {
		return at, nil
	}
	s, lo, last := t.store, t.lo+from, -1
	err = s.guard(func() {
		for i := s.firstBorder(lo); i < int(s.documents) && s.border(i) < lo+n; i++ {
			if k := s.border(i) - lo; k != last { // empty documents have the same border
				at, last = append(at, k), k
			}
		}
	})
	return at, err
}

// mask replaces targets that are not to be predicted by Ignore. targets are the tokens from position from on.
func (t *Tokens) mask(targets []int32, from int) error {
	s := t.store
	if len(s.given) == 0 && (!t.apart || s.leads()) {
		return nil
	}
	return s.guard(func() {
		lo := t.lo + from
		if len(s.given) > 0 {
			for i := range targets {
				if s.isGiven(lo + i) {
					targets[i] = Ignore
				}
			}
		}
		if !t.apart || s.leads() {
			return
		}
		for i := s.firstBorder(lo); i < int(s.documents); i++ {
			k := s.border(i) - lo
			if k >= len(targets) {
				break
			}
			targets[k] = Ignore
		}
	})
}

// Targets returns the number of targets that Windows yields, except Ignore, and the bytes of text that they stand for,
// see Bytes.
func (t *Tokens) Targets() (count int, bytes int64, err error) {
	all := t.Slice(min(1, t.Len()), t.Len())
	if bytes, err = all.Bytes(); err != nil || len(t.store.given) == 0 && (!t.apart || t.store.leads()) {
		return all.Len(), bytes, err
	}
	var ids, targets [1 << 12]int32
	table, known := t.store.table, int64(0)
	for at := 0; at < all.Len(); {
		n, err := all.Read(ids[:], at)
		if err != nil {
			return 0, 0, err
		}
		copy(targets[:], ids[:n])
		if err := all.mask(targets[:n], at); err != nil {
			return 0, 0, err
		}
		err = t.store.guard(func() {
			for _, id := range targets[:n] {
				if id == Ignore {
					continue
				}
				if count++; len(table) > 0 {
					known += int64(binary.LittleEndian.Uint32(table[4*id:]))
				}
			}
		})
		if err != nil {
			return 0, 0, err
		}
		at += n
	}
	if len(table) > 0 {
		return count, known, nil
	}
	over, under := bits.Mul64(uint64(bytes), uint64(count)) // bytes·count/all without overflow
	share, _ := bits.Div64(over, under, uint64(all.Len()))
	return count, int64(share), nil
}

// nearBorder returns the border of two documents nearest to cut, if its distance is at most half of the part after cut;
// else it returns cut.
func (t *Tokens) nearBorder(cut int) (int, error) {
	if !t.apart {
		return cut, nil
	}
	s, best, limit := t.store, cut, (t.Len()-cut)/2
	err := s.guard(func() {
		i := s.firstBorder(t.lo + cut)
		for _, k := range []int{i - 1, i} {
			if k < 1 || k >= int(s.documents) {
				continue
			}
			at := s.border(k) - t.lo
			if far := max(at-cut, cut-at); at > 0 && at < t.Len() && far <= limit {
				best, limit = at, far
			}
		}
	})
	return best, err
}
