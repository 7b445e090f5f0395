package template

import (
	"strings"
	"unicode"
)

// textMethods holds the methods of a text.
var textMethods map[string]method

func init() { // init avoids an initialization cycle: some functions refer to the variable
	textMethods = map[string]method{
		"strip":      stripping("strip", both),
		"lstrip":     stripping("lstrip", left),
		"rstrip":     stripping("rstrip", right),
		"split":      splitting("split", false),
		"rsplit":     splitting("rsplit", true),
		"startswith": affixed("startswith", strings.HasPrefix),
		"endswith":   affixed("endswith", strings.HasSuffix),
		"find":       finding("find", strings.Index),
		"rfind":      finding("rfind", strings.LastIndex),
		"ljust":      padding("ljust", -1),
		"rjust":      padding("rjust", 1),
		"center":     padding("center", 0),
		"zfill":      zfill,
		"lower":      plainly(strings.ToLower),
		"casefold":   plainly(strings.ToLower),
		"upper":      plainly(strings.ToUpper),
		"capitalize": plainly(capitalize),
		"title":      plainly(titleMethod),
		"swapcase":   plainly(swapCase),
		"isdigit":    plainly(all(unicode.IsDigit)),
		"isnumeric":  plainly(all(unicode.IsNumber)),
		"isdecimal":  plainly(all(unicode.IsDigit)),
		"isalpha":    plainly(all(unicode.IsLetter)),
		"isalnum":    plainly(all(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })),
		"isspace":    plainly(all(pythonSpace)),
		"islower":    plainly(cased(unicode.IsLower, unicode.IsUpper)),
		"isupper":    plainly(cased(unicode.IsUpper, unicode.IsLower)),
		"count": func(r *run, v value, a *args) value {
			r.spend(len(v.(string)))
			return int64(strings.Count(v.(string), r.textOf(a.take(r, "count", "sub")[0], "")))
		},
		"index": func(r *run, v value, a *args) value {
			at := finding("index", strings.Index)(r, v, a)
			if at == int64(-1) {
				r.fail("index: the text is not there")
			}
			return at
		},
		"replace": func(r *run, v value, a *args) value {
			to := a.take(r, "replace", "old", "new", "count")
			return r.replace(v.(string), r.textOf(to[0], ""), r.textOf(to[1], ""), r.intOf(to[2], -1))
		},
		"join": func(r *run, v value, a *args) value {
			items := r.items(a.take(r, "join", "iterable")[0])
			for _, item := range items {
				if _, ok := item.(string); !ok {
					r.fail("join: found %s, want texts", typeName(item))
				}
			}
			return r.join(items, v.(string))
		},
		"splitlines": func(r *run, v value, a *args) value {
			return texts(r.lines(v.(string), boolOf(a.take(r, "splitlines", "keepends")[0], false)))
		},
		"removeprefix": removing("removeprefix", "prefix", strings.TrimPrefix),
		"removesuffix": removing("removesuffix", "suffix", strings.TrimSuffix),
		"partition":    partition("partition", strings.Index),
		"rpartition":   partition("rpartition", strings.LastIndex),
		"format":       formatMethod,
	}
}

// removing returns removeprefix or removesuffix.
func removing(name, what string, trim func(s, affix string) string) method {
	return func(r *run, v value, a *args) value { return trim(v.(string), r.textOf(a.take(r, name, what)[0], "")) }
}

// partition returns a method that splits a text in three at a separator.
func partition(name string, index func(s, sep string) int) method {
	return func(r *run, v value, a *args) value {
		s, sep := v.(string), r.textOf(a.take(r, name, "sep")[0], "")
		r.spend(len(s))
		if sep == "" {
			r.fail("%s: found an empty separator", name)
		}
		three := []string{s, "", ""}
		if i := index(s, sep); i >= 0 {
			three = []string{s[:i], sep, s[i+len(sep):]}
		} else if name == "rpartition" {
			three = []string{"", "", s}
		}
		l := texts(three)
		l.tuple = true
		return l
	}
}

// titleMethod implements str.title: words are runs of letters.
func titleMethod(s string) string {
	var b strings.Builder
	inWord := false
	for _, c := range s {
		if inWord {
			b.WriteRune(unicode.ToLower(c))
		} else {
			b.WriteRune(unicode.ToTitle(c))
		}
		inWord = unicode.IsLetter(c)
	}
	return b.String()
}

func swapCase(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsUpper(c) {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, s)
}

// formatMethod implements str.format with plain fields: {}, {0} and {name}. Fields cannot access parts of values.
func formatMethod(r *run, v value, a *args) value {
	var b strings.Builder
	s, next := v.(string), int64(0)
	r.spend(len(s))
	for {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		if i+1 < len(s) && s[i+1] == s[i] {
			b.WriteByte(s[i])
			s = s[i+2:]
			continue
		}
		name, rest, ok := strings.Cut(s[i+1:], "}")
		if !ok || s[i] == '}' {
			r.fail("format: found a single bracket in %.40q", s[i:])
		}
		x, found := a.named.get(name)
		at, isNumber := toInt(name)
		if name == "" {
			at, isNumber = next, true
			next++
		}
		if isNumber && at >= 0 && at < int64(len(a.pos)) {
			x, found = a.pos[at], true
		}
		if !found {
			r.fail("format: found {%.40s}, want {}, {0} or {name} of an argument", name)
		}
		text := r.text(x)
		b.WriteString(text)
		s = rest
	}
}
