package figure

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible is text as it is shown: what has no form or moves other letters is written as an escape such as \u202e. A
// token may hold anything, and one that turns the direction of writing would turn the page around it. The page's script
// has the same rules (assets/scale.js).
func visible(s string) string {
	if !strings.ContainsFunc(s, isHidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteRune('¶')
		case r == '\t':
			b.WriteRune('→')
		case isHidden(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case isHidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isHidden reports whether a letter is shown by an escape: controls, marks of direction and others without a form, and
// what XML may not hold. The joiners within letters of Persian and within pictures stay.
func isHidden(r rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d
	return r != nonJoiner && r != joiner &&
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Noncharacter_Code_Point)
}

// short is text of at most most letters, with an ellipsis where some are left out.
func short(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// label is text for a place with room for few letters.
func label(s string) string { return visible(short(s, mostLabel)) }

// mostLabel is the most letters of a label that are drawn.
const mostLabel = 60
