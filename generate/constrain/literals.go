package constrain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// mustEscape lists the characters that must be escaped in a JSON string.
var mustEscape = func() (all []rune) {
	for r := range rune(0x20) {
		all = append(all, r)
	}
	return append(all, '"', '\\')
}()

// escape returns the JSON escape sequence of a character of mustEscape.
func escape(r rune) string {
	if i := strings.IndexRune("\"\\\b\f\n\r\t", r); i >= 0 {
		return `\` + `"\bfnrt`[i:i+1]
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// quoted returns a string as JSON, without the quotation marks. Each character has its shortest spelling.
func quoted(s string) string {
	var out strings.Builder
	for _, r := range s {
		if r < 0x20 || r == '"' || r == '\\' {
			out.WriteString(escape(r))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// literal writes states that accept a value of a schema, with the usual optional white space.
func (b *builder) literal(v any, next int32) int32 {
	switch v := v.(type) {
	case []any:
		at := b.space(b.text("]", next))
		for i := len(v) - 1; i >= 0; i-- {
			if at = b.literal(v[i], at); i > 0 {
				at = b.text(",", b.space(at))
			}
		}
		if len(v) > 0 {
			at = b.space(at)
		}
		return b.text("[", at)
	case *object:
		at := b.space(b.text("}", next))
		for i := len(v.keys) - 1; i >= 0; i-- {
			if at = b.key(b.text(quoted(v.keys[i])+`"`, b.colon(b.literal(v.values[v.keys[i]], at)))); i > 0 {
				at = b.text(",", b.space(at))
			}
		}
		if len(v.keys) > 0 {
			at = b.space(at)
		}
		return b.text("{", at)
	}
	return b.text(scalar(v), next)
}

// scalar returns as JSON a value that is neither a list nor an object.
func scalar(v any) string {
	if s, ok := v.(string); ok {
		return `"` + quoted(s) + `"`
	}
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}

// key writes states that accept the start of a key.
func (b *builder) key(next int32) int32 { return b.text(`"`, next) }

// colon writes states that accept the colon after a key and an optional space.
func (b *builder) colon(next int32) int32 { return b.text(":", b.either(next, b.text(" ", next))) }

// otherText writes states that accept a string that is not in not, including its closing quotation mark. Until the
// string differs from all of these, each character has one spelling, so that none of them can be written in another
// way.
func (b *builder) otherText(not []string, next int32) int32 {
	rest := b.reserve() // the state after the string differs
	b.set(rest, b.either(b.text(`"`, next), b.char(anyRune, jsonText, rest)))
	if len(not) == 0 {
		return rest
	}
	return b.differs(not, rest, next)
}

// differs writes states that accept the rest of a string that is none of the rests in not.
func (b *builder) differs(not []string, rest, next int32) int32 {
	after := map[rune][]string{}
	var ways []int32
	if !slices.Contains(not, "") {
		ways = append(ways, b.text(`"`, next))
	}
	for _, text := range not {
		if text != "" {
			r, n := utf8.DecodeRuneInString(text)
			after[r] = append(after[r], text[n:])
		}
	}
	var others []rune
	from := rune(0)
	for _, r := range slices.Sorted(maps.Keys(after)) {
		ways = append(ways, b.char([]rune{r, r}, jsonText, b.differs(after[r], rest, next)))
		if from < r {
			others = append(others, from, r-1)
		}
		from = r + 1
	}
	if others = append(others, from, utf8.MaxRune); from == 0 {
		others = []rune{0, 0x7F, 0x80, utf8.MaxRune} // not anyRune, which permits other spellings
	}
	return b.either(append(ways, b.char(others, jsonText, rest))...)
}
