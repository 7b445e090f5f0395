package figure

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible replaces characters that are invisible, or that move other letters, by escapes such as \u202e. A token may
// contain anything, and one that changes the direction of writing would also affect the page around it. The page's
// script has the same rules (assets/scale.js).
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

// isHidden reports whether a character is shown as an escape: controls, marks of direction and other invisible ones,
// and characters that XML does not allow. The joiners within Persian letters and within emoji stay.
func isHidden(r rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d
	return r != nonJoiner && r != joiner &&
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Noncharacter_Code_Point)
}

// short returns the first most characters of a text, with an ellipsis if the text is longer.
func short(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// label shortens a text for a place with little room.
func label(s string) string { return visible(short(s, mostLabel)) }

// mostLabel is the maximum number of letters of a label.
const mostLabel = 60
