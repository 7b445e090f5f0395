package tokenizer

import (
	"cmp"
	"slices"
	"sync"
	"unicode"
)

// invalidByte stands for a byte that is not part of valid UTF-8. It is a symbol like any other, beyond the last
// character: no class that lists characters has it, every negated class has it. So for GPT-2's pattern it is one of
// [^\s\p{L}\p{N}], and text that is not UTF-8 is cut like any other.
const invalidByte = unicode.MaxRune + 1

// runeRange is the symbols lo to hi, both included.
type runeRange struct{ lo, hi rune }

// runeSet is a set of symbols: ascending ranges that neither touch nor overlap.
type runeSet []runeRange

// newRuneSet makes a set of ranges in any order.
func newRuneSet(ranges []runeRange) runeSet {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b runeRange) int { return cmp.Compare(a.lo, b.lo) })
	var s runeSet
	for _, r := range ranges {
		if n := len(s); n > 0 && r.lo <= s[n-1].hi+1 {
			s[n-1].hi = max(s[n-1].hi, r.hi)
		} else {
			s = append(s, r)
		}
	}
	return s
}

// tableSet is the set of the characters of a Unicode table.
func tableSet(tables ...*unicode.RangeTable) runeSet {
	var ranges []runeRange
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			ranges = append(ranges, runeRange{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			ranges = append(ranges, runeRange{r, r})
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
	return newRuneSet(ranges)
}

// negate is the set of all other symbols.
func (s runeSet) negate() runeSet {
	var out runeSet
	next := rune(0)
	for _, r := range s {
		if r.lo > next {
			out = append(out, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= invalidByte {
		out = append(out, runeRange{next, invalidByte})
	}
	return out
}

// has reports whether the set has the symbol r.
func (s runeSet) has(r rune) bool {
	_, found := slices.BinarySearchFunc(s, r, func(in runeRange, r rune) int {
		switch {
		case in.hi < r:
			return -1
		case in.lo > r:
			return 1
		}
		return 0
	})
	return found
}

// caseRings are the sets of characters that are cases of one letter, each of two or more.
var caseRings = sync.OnceValue(func() (rings [][]rune) {
	for _, cased := range unicode.CaseRanges {
		for c := rune(cased.Lo); c <= rune(cased.Hi); c++ {
			// Every ring has a letter that package unicode lists with cases. Each ring is added once, at its least
			// letter: SimpleFold ascends, and goes from the last letter to the least.
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

// few tells whether the set has few symbols.
func (s runeSet) few() bool {
	n := rune(0)
	for _, r := range s {
		if n += r.hi - r.lo + 1; n > fewSymbols {
			return false
		}
	}
	return true
}

// foldWork is about the work of fold.
func (s runeSet) foldWork() int {
	if s.few() {
		return fewSymbols
	}
	return 8 * (len(s) + len(caseRings())) // a ring also costs a search in the set
}

// fold adds the other cases of every letter in the set.
func (s runeSet) fold() runeSet {
	ranges := slices.Clone(s)
	if s.few() {
		for _, in := range s {
			for c := in.lo; c <= in.hi && c <= unicode.MaxRune; c++ {
				for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
					ranges = append(ranges, runeRange{other, other})
				}
			}
		}
		return newRuneSet(ranges)
	}
	for _, ring := range caseRings() {
		if slices.ContainsFunc(ring, s.has) {
			for _, c := range ring {
				ranges = append(ranges, runeRange{c, c})
			}
		}
	}
	return newRuneSet(ranges)
}

// isSpace is \s of the patterns.
func isSpace(r rune) bool { return unicode.Is(unicode.White_Space, r) }
