package constrain

import "regexp/syntax"

// ahead restricts the next character.
type ahead uint8

const (
	aheadAny   ahead = iota
	aheadEnd         // the text must end
	aheadWord        // the next character must be a letter, a digit or _
	aheadOther       // the next character must be another one, or the text must end
)

// and returns the restriction equivalent to both a and b. ok is false if nothing satisfies both.
func (a ahead) and(b ahead) (both ahead, ok bool) {
	switch {
	case a == b || b == aheadAny:
		return a, true
	case a == aheadAny:
		return b, true
	case a == aheadWord || b == aheadWord:
		return 0, false
	}
	return aheadEnd, true // one is aheadEnd and the other aheadOther
}

// allows reports whether a character may follow. word tells whether it is one of a word.
func (a ahead) allows(word bool) bool {
	return a == aheadAny || a == aheadWord && word || a == aheadOther && !word
}

// asks returns the restriction that an empty-width operation sets on the next character. begun tells whether a
// character precedes the operation, and word whether that is one of a word. ok is false if the operation cannot hold.
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

// The two classes of characters that \b separates.
var (
	wordRunes  = []rune{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}
	otherRunes = complement(wordRunes)
)
