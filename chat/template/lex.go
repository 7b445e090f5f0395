package template

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind int

const (
	endToken kind = iota
	textToken
	openBlock  // {%
	closeBlock // %}
	openValue  // {{
	closeValue // }}
	nameToken
	stringToken
	intToken
	floatToken
	opToken
)

// token is a token of a template.
type token struct {
	kind kind
	text string // text of a string is without quotes and escapes
	line int
}

// lexer splits a template into tokens.
type lexer struct {
	src    string
	at     int
	line   int
	tokens []token
	// trimNext tells what to remove at the start of the text after a tag: nothing, its first newline, or all white
	// space.
	trimNext trim
}

type trim int

const (
	keep trim = iota
	trimNewline
	trimSpace
)

// lex splits source into tokens. It also strips white space, with Jinja's settings in transformers: it removes the
// newline after a block or comment, and the blanks before a block or comment that starts a line. A minus in a tag
// removes all white space on its side. A plus keeps the white space.
func lex(source string) []token {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	source = strings.TrimSuffix(source, "\n")
	l := &lexer{src: source, line: 1}
	for l.at < len(l.src) {
		l.data()
	}
	return append(l.tokens, token{kind: endToken, line: l.line})
}

func (l *lexer) rest() string { return l.src[l.at:] }

// skip advances by n bytes.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.src[l.at:l.at+n], "\n")
	l.at += n
}

func (l *lexer) add(k kind, text string) { l.tokens = append(l.tokens, token{k, text, l.line}) }

// data reads the text up to the next tag, and the beginning of the tag.
func (l *lexer) data() {
	text, tag := l.rest(), byte(0)
	if i := nextTag(text); i >= 0 {
		text, tag = text[:i], text[i+1]
	}
	begun, size := l.at == 0 || l.src[l.at-1] == '\n', len(text)
	switch l.trimNext {
	case trimNewline:
		if strings.HasPrefix(text, "\n") {
			text, begun = text[1:], true
		}
	case trimSpace:
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	l.trimNext = keep
	if tag == 0 {
		l.text(text)
		l.skip(size)
		return
	}
	sign := byte(0)
	if after := l.at + size + 2; after < len(l.src) {
		sign = l.src[after]
	}
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	case tag != '{' && sign != '+':
		if blanks := strings.TrimRight(text, " \t"); blanks == "" && begun || strings.HasSuffix(blanks, "\n") {
			text = blanks
		}
	}
	l.text(text)
	l.skip(size + 2)
	if sign == '-' || sign == '+' && tag != '{' {
		l.skip(1)
	}
	switch tag {
	case '#':
		l.comment()
	case '%':
		if !l.raw() {
			l.add(openBlock, "{%")
			l.code("%}", closeBlock)
		}
	default:
		l.add(openValue, "{{")
		l.code("}}", closeValue)
	}
}

// nextTag returns the index of the next tag in s, or -1.
func nextTag(s string) int {
	for from := 0; ; from++ {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		if from += i; strings.IndexByte("{%#", s[from+1]) >= 0 {
			return from
		}
	}
}

func (l *lexer) text(s string) {
	if s != "" {
		l.add(textToken, s)
	}
}

// comment skips a comment.
func (l *lexer) comment() {
	i := strings.Index(l.rest(), "#}")
	if i < 0 {
		fail(l.line, "a comment {# has no end #}")
	}
	sign := byte(0)
	if i > 0 {
		sign = l.rest()[i-1]
	}
	l.skip(i + 2)
	l.closed(sign)
}

// closed sets how the text after a block or comment is stripped. sign is the character before the end of the block or
// comment.
func (l *lexer) closed(sign byte) {
	switch sign {
	case '-':
		l.trimNext = trimSpace
	case '+':
		l.trimNext = keep
	default:
		l.trimNext = trimNewline
	}
}

// raw reports whether the rest of a block is {% raw %}. If so, it reads up to the end of the raw block. The text inside
// is not parsed.
func (l *lexer) raw() bool {
	sign, size, ok := wordTag(l.rest(), "raw")
	if !ok {
		return false
	}
	begun := l.line
	l.skip(size)
	text := l.rest()
	for from := 0; ; from += 2 {
		i := strings.Index(text[from:], "{%")
		if i < 0 {
			fail(begun, "{%% raw %%} has no {%% endraw %%}")
		}
		from += i
		inside := text[from+2:]
		before := strings.TrimLeft(inside, "-+")
		endSign, size, ok := wordTag(before, "endraw")
		if !ok || len(inside)-len(before) > 1 {
			continue
		}
		body := text[:from]
		if sign == '-' {
			body = strings.TrimLeftFunc(body, unicode.IsSpace)
		}
		switch {
		case strings.HasPrefix(inside, "-"):
			body = strings.TrimRightFunc(body, unicode.IsSpace)
		case !strings.HasPrefix(inside, "+"):
			if blanks := strings.TrimRight(body, " \t"); strings.HasSuffix(blanks, "\n") {
				body = blanks
			}
		}
		l.text(body)
		l.skip(from + 2 + len(inside) - len(before) + size)
		l.closed(endSign)
		return true
	}
}

// wordTag parses " word %}" at the start of s. It returns the sign before the end, or 0, and the size.
func wordTag(s, word string) (sign byte, size int, ok bool) {
	t, ok := strings.CutPrefix(strings.TrimLeftFunc(s, unicode.IsSpace), word)
	if !ok {
		return 0, 0, false
	}
	t = strings.TrimLeftFunc(t, unicode.IsSpace)
	if t != "" && (t[0] == '-' || t[0] == '+') {
		sign, t = t[0], t[1:]
	}
	t, ok = strings.CutPrefix(t, "%}")
	return sign, len(s) - len(t), ok
}

// operators lists the operators of expressions. Longer ones precede their prefixes.
var operators = []string{
	"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",",
	".", ":", "|",
}

// code reads an expression or statement up to its end. An end within brackets or a string does not count.
func (l *lexer) code(end string, closing kind) {
	open := 0
	for {
		blank := len(l.rest()) - len(strings.TrimLeftFunc(l.rest(), unicode.IsSpace))
		l.skip(blank)
		s := l.rest()
		if s == "" {
			fail(l.line, "the template ends inside of a tag, before %s", end)
		}
		if sign := s[0]; open == 0 {
			signed := (sign == '-' || sign == '+' && closing == closeBlock) && strings.HasPrefix(s[1:], end)
			if signed || strings.HasPrefix(s, end) {
				l.add(closing, end)
				if signed {
					l.skip(1)
				} else {
					sign = 0
				}
				l.skip(len(end))
				if closing == closeBlock || sign == '-' {
					l.closed(sign)
				}
				return
			}
		}
		switch c, _ := utf8.DecodeRuneInString(s); {
		case c == '"' || c == '\'':
			l.string(s)
		case c >= '0' && c <= '9':
			l.number(s)
		case c == '_' || unicode.IsLetter(c):
			n := len(s) - len(strings.TrimLeftFunc(s, func(r rune) bool {
				return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
			}))
			l.add(nameToken, s[:n])
			l.skip(n)
		default:
			i := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(s, op) })
			if i < 0 {
				fail(l.line, "found the character %q, want an expression", c)
			}
			op := operators[i]
			switch op {
			case "(", "[", "{":
				open++
			case ")", "]", "}":
				open--
			}
			l.add(opToken, op)
			l.skip(len(op))
		}
	}
}

// number reads a number. After a dot, as in matrix.0.1, it ends before the next dot.
func (l *lexer) number(s string) {
	digits := func(from int) int {
		for from < len(s) && (s[from] >= '0' && s[from] <= '9' || s[from] == '_' && from > 0) {
			from++
		}
		return from
	}
	n, k := digits(0), intToken
	last := l.tokens[len(l.tokens)-1]
	if afterDot := last.kind == opToken && last.text == "."; !afterDot {
		if n+1 < len(s) && s[n] == '.' && s[n+1] >= '0' && s[n+1] <= '9' {
			n, k = digits(n+1), floatToken
		}
		if m := n + 1; n < len(s) && (s[n] == 'e' || s[n] == 'E') {
			if m < len(s) && (s[m] == '+' || s[m] == '-') {
				m++
			}
			if m < len(s) && s[m] >= '0' && s[m] <= '9' {
				n, k = digits(m), floatToken
			}
		}
	}
	l.add(k, strings.ReplaceAll(s[:n], "_", ""))
	l.skip(n)
}

// string reads a string in quotes, with Python's escapes.
func (l *lexer) string(s string) {
	var b strings.Builder
	for i := 1; i < len(s); {
		switch {
		case s[i] == s[0]:
			l.add(stringToken, b.String())
			l.skip(i + 1)
			return
		case s[i] == '\\' && i+1 < len(s):
			i += unescape(&b, s[i:])
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	fail(l.line, "a text in quotes has no end: %.20q", s)
}

// unescape writes the text of the escape at the start of s, and returns the size of the escape. It keeps an unknown
// escape unchanged.
func unescape(b *strings.Builder, s string) int {
	if i := strings.IndexByte(`ntrbfva\'"`, s[1]); i >= 0 {
		b.WriteByte("\n\t\r\b\f\v\a\\'\""[i])
		return 2
	}
	if s[1] == '\n' {
		return 2
	}
	digits, base := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]], 16
	from := 2
	if s[1] >= '0' && s[1] <= '7' {
		from, base = 1, 8
		for digits < 3 && from+digits < len(s) && s[from+digits] >= '0' && s[from+digits] <= '7' {
			digits++
		}
	}
	if digits > 0 && len(s) >= from+digits {
		if code, err := strconv.ParseUint(s[from:from+digits], base, 32); err == nil && code <= unicode.MaxRune {
			b.WriteRune(rune(code))
			return from + digits
		}
	}
	b.WriteString(s[:1])
	return 1
}
