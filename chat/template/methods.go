package template

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// method is a method of a text, a list or a mapping.
type method func(r *run, v value, a *args) value

// methodOf returns the method of v with that name, or nil.
func methodOf(v value, name string) method {
	switch v.(type) {
	case string:
		if m := textMethods[name]; m != nil {
			return m
		}
	case *list:
		if slices.Contains([]string{"append", "extend", "insert", "pop", "remove", "reverse", "sort"}, name) {
			return unchangeable(name)
		}
		return listMethods[name]
	case *dict:
		if slices.Contains([]string{"clear", "pop", "popitem", "setdefault", "update"}, name) {
			return unchangeable(name)
		}
		return dictMethods[name]
	}
	return nil
}

// unchangeable returns a method that fails because it would change a value. transformers' sandbox rejects these, too.
func unchangeable(name string) method {
	return func(r *run, v value, _ *args) value {
		r.fail("%s: a chat template cannot change a %s", name, typeName(v))
		return nil
	}
}

var dictMethods = map[string]method{
	"get": func(r *run, v value, a *args) value {
		to := a.take(r, "get", "key", "default")
		if x, ok := v.(*dict).get(to[0]); ok {
			return x
		}
		return valueOr(to[1], nil)
	},
	"items":  func(r *run, v value, _ *args) value { return r.pairs(v.(*dict)) },
	"keys":   func(_ *run, v value, _ *args) value { return &list{items: v.(*dict).keys} },
	"values": func(_ *run, v value, _ *args) value { return &list{items: v.(*dict).vals} },
	"copy":   func(_ *run, v value, _ *args) value { return v },
}

var listMethods = map[string]method{
	"count": func(r *run, v value, a *args) value {
		x, n := a.take(r, "count", "value")[0], int64(0)
		for _, item := range v.(*list).items {
			if r.equal(item, x, 0) {
				n++
			}
		}
		return n
	},
	"index": func(r *run, v value, a *args) value {
		x := a.take(r, "index", "value")[0]
		i := slices.IndexFunc(v.(*list).items, func(item value) bool { return r.equal(item, x, 0) })
		if i < 0 {
			r.fail("index: the value is not in the list")
		}
		return int64(i)
	},
	"copy": func(_ *run, v value, _ *args) value { return v },
}

// plainly returns a method of a text without arguments.
func plainly[T value](f func(string) T) method {
	return func(r *run, v value, _ *args) value {
		r.spend(len(v.(string)))
		return f(v.(string))
	}
}

// all returns a function that reports whether a text is not empty and is holds for every character.
func all(is func(rune) bool) func(string) bool {
	return func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
	}
}

// cased returns a function that reports whether is holds for at least one letter of a text, and other for none.
func cased(is, other func(rune) bool) func(string) bool {
	return func(s string) bool { return strings.IndexFunc(s, is) >= 0 && strings.IndexFunc(s, other) < 0 }
}

// side tells at which ends a text is stripped.
type side int

const (
	left side = 1 << iota
	right
	both = left | right
)

// strip removes characters at the ends of a text: those in chars, or white space if chars is missing.
func strip(s string, chars value, at side) string {
	is := pythonSpace
	if set, ok := chars.(string); ok {
		is = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if at&left != 0 {
		s = strings.TrimLeftFunc(s, is)
	}
	if at&right != 0 {
		s = strings.TrimRightFunc(s, is)
	}
	return s
}

// pythonSpace reports whether str.strip and str.split treat c as white space: Unicode's white space and the ASCII
// separators.
func pythonSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }

func stripping(name string, at side) method {
	return func(r *run, v value, a *args) value {
		chars := a.take(r, name, "chars")[0]
		r.spend(len(v.(string)) * (1 + len(r.textOf(chars, ""))))
		return strip(v.(string), chars, at)
	}
}

// affixed returns startswith or endswith, for one text or a tuple of texts.
func affixed(name string, has func(s, with string) bool) method {
	return func(r *run, v value, a *args) value {
		with := a.take(r, name, "prefix")[0]
		texts := []value{with}
		if l, ok := with.(*list); ok {
			texts = l.items
		}
		return slices.ContainsFunc(texts, func(x value) bool {
			r.step(0)
			return has(v.(string), r.textOf(x, ""))
		})
	}
}

// finding returns find or rfind, whose result is the index of a text in characters, or -1.
func finding(name string, index func(s, of string) int) method {
	return func(r *run, v value, a *args) value {
		s := v.(string)
		r.spend(2 * len(s))
		i := index(s, r.textOf(a.take(r, name, "sub")[0], ""))
		return int64(utf8.RuneCountInString(s[:max(i, 0)]) + min(i, 0))
	}
}

// splitting returns split or rsplit.
func splitting(name string, fromRight bool) method {
	return func(r *run, v value, a *args) value {
		to := a.take(r, name, "sep", "maxsplit")
		s, most := v.(string), r.intOf(to[1], -1)
		r.spend(len(s))
		var parts []string
		if sep := r.textOf(to[0], ""); sep != "" {
			parts = r.splitBy(s, sep, most, fromRight)
		} else if to[0] == nil || absent(to[0]) {
			r.spend(3 * itemWork * words(s))
			parts = splitSpace(s, most, fromRight)
		} else {
			r.fail("%s: found an empty separator", name)
		}
		return texts(parts)
	}
}

// words returns the number of words that are separated by white space.
func words(s string) (n int) {
	space := true
	for _, c := range s {
		before := space
		if space = pythonSpace(c); before && !space {
			n++
		}
	}
	return n
}

func texts(parts []string) *list {
	l := &list{items: make([]value, len(parts))}
	for i, p := range parts {
		l.items[i] = p
	}
	return l
}

func (r *run) splitBy(s, sep string, most int64, fromRight bool) []string {
	n := int64(strings.Count(s, sep))
	r.spend(3 * itemWork * int(n))
	if most < 0 || most >= n {
		return strings.Split(s, sep)
	}
	if !fromRight {
		return strings.SplitN(s, sep, int(most)+1)
	}
	parts := make([]string, most+1)
	for i := most; i > 0; i-- {
		at := strings.LastIndex(s, sep)
		s, parts[i] = s[:at], s[at+len(sep):]
	}
	parts[0] = s
	return parts
}

// splitSpace splits a text at white space.
func splitSpace(s string, most int64, fromRight bool) (parts []string) {
	if most < 0 {
		return strings.FieldsFunc(s, pythonSpace)
	}
	trim := strings.TrimLeftFunc
	if fromRight {
		trim = strings.TrimRightFunc
	}
	for s = trim(s, pythonSpace); s != "" && int64(len(parts)) < most; {
		word, rest := s, ""
		if !fromRight {
			if i := strings.IndexFunc(s, pythonSpace); i >= 0 {
				word, rest = s[:i], s[i:]
			}
		} else if i := strings.LastIndexFunc(s, pythonSpace); i >= 0 {
			_, n := utf8.DecodeRuneInString(s[i:])
			word, rest = s[i+n:], s[:i]
		}
		parts, s = append(parts, word), trim(rest, pythonSpace)
	}
	if s != "" {
		parts = append(parts, s)
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

// pad fills a text up to a width: on the right with align -1, on the left with 1, on both sides with 0.
func (r *run) pad(s string, width int64, with string, align int) string {
	if utf8.RuneCountInString(with) != 1 {
		r.fail("found %.20q to fill with, want one character", with)
	}
	n := width - int64(r.length(s))
	if n <= 0 {
		return s
	}
	r.times(int64(len(with)), n)
	before := int64(0)
	switch align {
	case 0:
		before = n/2 + n&width&1
	case 1:
		before = n
	}
	return strings.Repeat(with, int(before)) + s + strings.Repeat(with, int(n-before))
}

func padding(name string, align int) method {
	return func(r *run, v value, a *args) value {
		to := a.take(r, name, "width", "fillchar")
		return r.pad(v.(string), r.intOf(to[0], 0), r.textOf(to[1], " "), align)
	}
}

// zfill pads a number with zeros after its sign.
func zfill(r *run, v value, a *args) value {
	s, sign := v.(string), ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s, sign = s[1:], s[:1]
	}
	return sign + r.pad(s, r.intOf(a.take(r, "zfill", "width")[0], 0)-int64(len(sign)), "0", 1)
}

// lines splits a text into lines.
func (r *run) lines(s string, keepends bool) (out []string) {
	for s != "" {
		r.spend(3 * itemWork)
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(out, s)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		end := i
		if keepends {
			end += n
		}
		out, s = append(out, s[:end]), s[i+n:]
	}
	return out
}

// percent implements Python's text % values, for %s, %d, %f, %r and %%.
func (r *run) percent(format string, values []value) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(format, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n := strings.IndexFunc(rest, unicode.IsLetter)
		if strings.HasPrefix(rest, "%") {
			b.WriteByte('%')
			format = rest[1:]
			continue
		}
		if n < 0 || len(values) == 0 {
			r.fail("format: found %%%.10s, want one of %%s, %%d, %%f for each of the values", rest)
		}
		b.WriteString(r.percentOne(rest[:n], rest[n], values[0]))
		format, values = rest[n+1:], values[1:]
	}
}

func (r *run) percentOne(flags string, verb byte, v value) string {
	width, precision, _ := strings.Cut(strings.TrimLeft(flags, "-0"), ".")
	w, _ := strconv.ParseInt(width, 10, 16)
	text, fill, align := "", " ", 1
	switch verb {
	case 's':
		text = r.text(v)
	case 'r':
		var b strings.Builder
		r.repr(&b, v, 0)
		text = b.String()
	case 'd':
		n, ok := toInt(v)
		if _, isText := v.(string); !ok || isText {
			r.fail("format: found %s for %%d, want a number", typeName(v))
		}
		text = strconv.FormatInt(n, 10)
	case 'f':
		p := int64(6)
		if precision != "" {
			p, _ = strconv.ParseInt(precision, 10, 8)
		}
		text = strconv.FormatFloat(r.float(v), 'f', int(p), 64)
	default:
		r.fail("format: found %%%c, want one of %%s, %%r, %%d, %%f", verb)
	}
	if strings.HasPrefix(flags, "-") {
		align = -1
	} else if strings.HasPrefix(flags, "0") && verb != 's' {
		fill = "0"
	}
	return r.pad(text, w, fill, align)
}
