package constrain

import "regexp/syntax"

// ahead is what may follow.
type ahead uint8

const (
	aheadAny   ahead = iota
	aheadEnd         // nothing
	aheadWord        // a letter, a digit or _
	aheadOther       // another character, or nothing
)

// and is what may follow where both hold. ok is false where nothing can be.
func (a ahead) and(b ahead) (both ahead, ok bool) {
	switch {
	case a == b || b == aheadAny:
		return a, true
	case a == aheadAny:
		return b, true
	case a == aheadWord || b == aheadWord:
		return 0, false
	}
	return aheadEnd, true // of that and aheadOther
}

// allows reports whether a character may follow.
func (a ahead) allows(word bool) bool {
	return a == aheadAny || a == aheadWord && word || a == aheadOther && !word
}

// asks is what may follow an empty-width operation after a text that has begun, with a character of a word at its end.
// ok is false where nothing can be.
func asks(op syntax.EmptyOp, begun, word bool) (a ahead, ok bool) {
	switch {
	case op&syntax.EmptyBeginText != 0:
		return aheadAny, !begun
	case op&syntax.EmptyEndText != 0:
		return aheadEnd, true
	case (op&syntax.EmptyWordBoundary != 0) != word:
		return aheadWord, true
	}
	return aheadOther, true
}

// The characters on the two sides of \b.
var (
	wordRunes  = []rune{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}
	otherRunes = complement(wordRunes)
)
