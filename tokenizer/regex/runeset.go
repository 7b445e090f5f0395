package regex

import (
	"cmp"
	"slices"
	"sync"
	"unicode"
)

// invalidByte represents a byte that is not part of valid UTF-8. It is a symbol like any other, after the last
// character: no class that lists characters contains it, every negated class does. So GPT-2's pattern treats it as one
// of [^\s\p{L}\p{N}], and splits text that is not UTF-8 like any other.
const invalidByte = unicode.MaxRune + 1

// Range contains the symbols Lo to Hi, both included.
type Range struct{ Lo, Hi rune }

// Set is a set of symbols: ascending ranges that neither touch nor overlap.
type Set []Range

// NewSet returns the set of the symbols in ranges, which may be in any order.
func NewSet(ranges []Range) Set {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.Lo, b.Lo) })
	var s Set
	for _, r := range ranges {
		if n := len(s); n > 0 && r.Lo <= s[n-1].Hi+1 {
			s[n-1].Hi = max(s[n-1].Hi, r.Hi)
		} else {
			s = append(s, r)
		}
	}
	return s
}

// Of returns the set of the characters of a text.
func Of(text string) Set {
	var ranges []Range
	for _, r := range text {
		ranges = append(ranges, Range{r, r})
	}
	return NewSet(ranges)
}

// TableSet returns the set of the characters of Unicode tables.
func TableSet(tables ...*unicode.RangeTable) Set {
	var ranges []Range
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			ranges = append(ranges, Range{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			ranges = append(ranges, Range{r, r})
		}
	}
	for _, table := range tables {
		for _, r := range table.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range table.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return NewSet(ranges)
}

// Negate returns the set of all other symbols.
func (s Set) Negate() Set {
	var out Set
	next := rune(0)
	for _, r := range s {
		if r.Lo > next {
			out = append(out, Range{next, r.Lo - 1})
		}
		next = r.Hi + 1
	}
	if next <= invalidByte {
		out = append(out, Range{next, invalidByte})
	}
	return out
}

// negateIf returns s.Negate if negated is true, else the set itself.
func (s Set) negateIf(negated bool) Set {
	if negated {
		return s.Negate()
	}
	return s
}

// Has reports whether the set contains the symbol r.
func (s Set) Has(r rune) bool {
	_, found := slices.BinarySearchFunc(s, r, func(in Range, r rune) int {
		switch {
		case in.Hi < r:
			return -1
		case in.Lo > r:
			return 1
		}
		return 0
	})
	return found
}

// caseRings returns the sets of characters that are cases of one letter. Each has at least two characters.
var caseRings = sync.OnceValue(func() (rings [][]rune) {
	for _, cased := range unicode.CaseRanges {
		for c := rune(cased.Lo); c <= rune(cased.Hi); c++ {
			// Every ring has a letter that package unicode lists with cases. Each ring is added once, at its smallest
			// letter: SimpleFold ascends, and returns from the last letter to the smallest.
			ring := []rune{c}
			for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
				ring = append(ring, other)
			}
			if len(ring) > 1 && c == slices.Min(ring) {
				rings = append(rings, ring)
			}
		}
	}
	return rings
})

// fewSymbols is the size up to which a set is folded symbol by symbol.
const fewSymbols = 64

// few reports whether the set has at most fewSymbols symbols.
func (s Set) few() bool {
	n := rune(0)
	for _, r := range s {
		if n += r.Hi - r.Lo + 1; n > fewSymbols {
			return false
		}
	}
	return true
}

// foldWork returns the approximate work of fold.
func (s Set) foldWork() int {
	if s.few() {
		return fewSymbols
	}
	return 8 * (len(s) + len(caseRings())) // a ring also costs a search in the set
}

// fold returns the set with the other cases of all its letters added.
func (s Set) fold() Set {
	ranges := slices.Clone(s)
	if s.few() {
		for _, in := range s {
			for c := in.Lo; c <= in.Hi && c <= unicode.MaxRune; c++ {
				for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
					ranges = append(ranges, Range{other, other})
				}
			}
		}
		return NewSet(ranges)
	}
	for _, ring := range caseRings() {
		if slices.ContainsFunc(ring, s.Has) {
			for _, c := range ring {
				ranges = append(ranges, Range{c, c})
			}
		}
	}
	return NewSet(ranges)
}

// IsSpace reports whether \s matches r.
func IsSpace(r rune) bool { return unicode.Is(unicode.White_Space, r) }
