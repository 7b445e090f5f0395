package words

import "unicode/utf8"

// PairFilter tells which characters are adjacent in some token. Between other characters a word can be divided without
// changing its ids, so words of any length are encoded in short parts. False positives are possible (it is a Bloom
// filter with one hash).
type PairFilter struct {
	bits  []uint64
	shift uint
}

// NewPairFilter returns the filter for the given tokens.
func NewPairFilter(tokens []string) *PairFilter {
	n := 0
	for _, token := range tokens {
		n += len(token)
	}
	f := &PairFilter{shift: 64 - 16}
	for f.shift > 64-26 && 1<<(64-f.shift) < 8*n {
		f.shift--
	}
	f.bits = make([]uint64, 1<<(64-f.shift)/64)
	for _, token := range tokens {
		before := rune(-1)
		for i := 0; i < len(token); {
			r, size := utf8.DecodeRuneInString(token[i:])
			if before >= 0 {
				at := f.at(before, r)
				f.bits[at/64] |= 1 << (at % 64)
			}
			before = r
			i += size
		}
	}
	return f
}

func (f *PairFilter) at(a, b rune) uint64 {
	return (uint64(a)<<32 | uint64(b)) * 0x9e3779b97f4a7c15 >> f.shift
}

func (f *PairFilter) Has(a, b rune) bool {
	at := f.at(a, b)
	return f.bits[at/64]>>(at%64)&1 != 0
}
