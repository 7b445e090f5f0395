package template

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str returns the text that prints for a value: Python's str().
func (r *run) str(v value) string {
	switch v := v.(type) {
	case string:
		return v
	case undefined:
		return ""
	}
	var b strings.Builder
	r.repr(&b, v, 0)
	return b.String()
}

// repr writes Python's repr() of a value.
func (r *run) repr(b *strings.Builder, v value, depth int) {
	r.step(depth)
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case undefined:
		b.WriteString("Undefined")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(formatFloat(v))
	case string:
		r.spend(10 * len(v))
		quote(b, v)
	case *list:
		open, end := "[", "]"
		if v.tuple {
			open, end = "(", ")"
			if len(v.items) == 1 {
				end = ",)"
			}
		}
		r.each(b, open, end, ", ", len(v.items), func(i int) { r.repr(b, v.items[i], depth+1) })
	case *dict:
		r.each(b, "{", "}", ", ", len(v.keys), func(i int) {
			r.repr(b, v.keys[i], depth+1)
			b.WriteString(": ")
			r.repr(b, v.vals[i], depth+1)
		})
	case *namespace:
		b.WriteString("<Namespace ")
		r.repr(b, v.dict, depth+1)
		b.WriteString(">")
	case *function:
		b.WriteString("<function " + v.name + ">")
	default:
		b.WriteString("<loop>")
	}
}

// each writes n elements with a separator between them.
func (r *run) each(b *strings.Builder, open, end, between string, n int, element func(i int)) {
	b.WriteString(open)
	for i := range n {
		if i > 0 {
			r.spend(len(between))
			b.WriteString(between)
		}
		element(i)
	}
	b.WriteString(end)
}

// formatFloat formats a number as Python does: 1.0, 1e+16, inf.
func formatFloat(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(x, 'g', -1, 64)), "+")
	}
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote writes a text in quotes, with Python's escapes.
func quote(b *strings.Builder, s string) {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	b.WriteByte(mark)
	for _, c := range s {
		switch {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\\' || c == rune(mark):
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == ' ' || unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			fmt.Fprintf(b, `\U%08x`, c)
		}
	}
	b.WriteByte(mark)
}

// jsonStyle describes how JSON is written.
type jsonStyle struct {
	item, key string // between elements, and after keys
	indent    string // for each level; used if lines is set
	lines     bool
	ascii     bool // write other characters as \u1234
	sorted    bool // sort the keys
}

// json returns a value as Python's json.dumps writes it.
func (r *run) json(v value, style jsonStyle, depth int) string {
	var b strings.Builder
	r.writeJSON(&b, v, style, depth)
	return b.String()
}

func (r *run) writeJSON(b *strings.Builder, v value, style jsonStyle, depth int) {
	r.step(depth)
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		text := formatFloat(v)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			text = strings.NewReplacer("nan", "NaN", "inf", "Infinity").Replace(text)
		}
		b.WriteString(text)
	case string:
		r.quoteJSON(b, v, style.ascii)
	case *list:
		r.jsonLines(b, "[", "]", style, depth, len(v.items), func(i int) {
			r.writeJSON(b, v.items[i], style, depth+1)
		})
	case *dict:
		keys, vals := v.keys, v.vals
		if style.sorted {
			keys, vals = r.sortedPairs(v)
		}
		r.jsonLines(b, "{", "}", style, depth, len(keys), func(i int) {
			name, ok := keys[i].(string)
			if !ok {
				name = r.json(keys[i], style, depth)
			}
			r.quoteJSON(b, name, style.ascii)
			r.spend(len(style.key))
			b.WriteString(style.key)
			r.writeJSON(b, vals[i], style, depth+1)
		})
	default:
		r.fail("found %s, want a value that JSON has", typeName(v))
	}
}

// jsonLines writes n elements between brackets, each on a line of its own if the style says so.
func (r *run) jsonLines(b *strings.Builder, open, end string, style jsonStyle, depth, n int, element func(int)) {
	line := func(depth int) {
		if style.lines && n > 0 {
			r.spend(1 + len(style.indent)*depth)
			b.WriteString("\n" + strings.Repeat(style.indent, depth))
		}
	}
	b.WriteString(open)
	for i := range n {
		if i > 0 {
			r.spend(len(style.item))
			b.WriteString(style.item)
		}
		line(depth + 1)
		element(i)
	}
	line(depth)
	b.WriteString(end)
}

// quoteJSON writes a text in quotes, with the escapes of json.dumps.
func (r *run) quoteJSON(b *strings.Builder, s string, ascii bool) {
	r.spend(6 * len(s))
	b.WriteByte('"')
	for _, c := range s {
		if i := strings.IndexRune("\n\t\r\b\f\"\\", c); i >= 0 {
			b.WriteByte('\\')
			b.WriteByte("ntrbf\"\\"[i])
			continue
		}
		switch {
		case c < ' ' || ascii && c >= 0x7f && c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		case ascii && c >= 0x10000:
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}

// runeSlice returns Python's s[from:to:step], indexed by characters. The bounds must be in range.
func (r *run) runeSlice(s string, from, to, step int64) string {
	r.spend(5 * len(s))
	if step == 1 && utf8.RuneCountInString(s) == len(s) {
		return s[from:max(from, to)]
	}
	var b strings.Builder
	runes := []rune(s)
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		b.WriteRune(runes[i])
	}
	return b.String()
}
