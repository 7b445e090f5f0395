package brief

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns text that is safe on a terminal: control characters and invalid UTF-8 become Go escapes such
// as \x1b. Newlines and tabs stay.
func Printable(text string) string {
	var b strings.Builder
	for i, size := 0, 0; i < len(text); i += size {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch size = n; {
		case r == utf8.RuneError && n == 1, r < ' ' && r != '\n' && r != '\t':
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r >= ' ' && unicode.IsControl(r):
			fmt.Fprintf(&b, `\u%04x`, r) // an escape that JSON has, too
		default:
			b.WriteString(text[i:][:n])
		}
	}
	return b.String()
}

// Dim marks text for a terminal as less important.
func Dim(text string) string { return "\x1b[2m" + text + "\x1b[22m" }
