package template

import (
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// filters maps the name of a filter, which follows a bar, to its function.
var filters map[string]func(r *run, v value, a *args) value

func init() { // init avoids an initialization cycle: some functions refer to the variable
	filters = map[string]func(r *run, v value, a *args) value{
		"abs": func(r *run, v value, _ *args) value {
			if n, ok := integer(v); ok {
				return max(n, -n)
			}
			return math.Abs(r.float(v))
		},
		"batch":      batch,
		"capitalize": func(r *run, v value, _ *args) value { return capitalize(r.text(v)) },
		"center": func(r *run, v value, a *args) value {
			return r.pad(r.text(v), r.intOf(a.take(r, "center", "width")[0], 80), " ", 0)
		},
		"count":    func(r *run, v value, _ *args) value { return int64(r.length(v)) },
		"default":  orDefault,
		"d":        orDefault,
		"dictsort": dictSort,
		"e":        escape,
		"escape":   escape,
		"first":    func(r *run, v value, _ *args) value { return firstOf(r.items(v)) },
		"float": func(r *run, v value, a *args) value {
			if f, ok := toFloat(v); ok {
				return f
			}
			return valueOr(a.take(r, "float", "default")[0], 0.0)
		},
		"forceescape": escape,
		"format":      func(r *run, v value, a *args) value { return r.percent(r.text(v), a.pos) },
		"groupby":     groupBy,
		"indent":      indent,
		"int": func(r *run, v value, a *args) value {
			if n, ok := toInt(v); ok {
				return n
			}
			return valueOr(a.take(r, "int", "default", "base")[0], int64(0))
		},
		"items": func(r *run, v value, _ *args) value {
			if absent(v) {
				return &list{}
			}
			return r.pairs(r.mapping(v))
		},
		"join": func(r *run, v value, a *args) value {
			to := a.take(r, "join", "d", "attribute")
			items := r.items(v)
			if !absent(to[1]) {
				items = r.mapped(items, func(x value) value { return r.path(x, to[1]) })
			}
			return r.join(items, r.textOf(to[0], ""))
		},
		"last": func(r *run, v value, _ *args) value {
			items := r.items(v)
			return firstOf(items[max(0, len(items)-1):])
		},
		"length":     func(r *run, v value, _ *args) value { return int64(r.length(v)) },
		"list":       func(r *run, v value, _ *args) value { return &list{items: r.items(v)} },
		"lower":      func(r *run, v value, _ *args) value { return strings.ToLower(r.text(v)) },
		"map":        mapItems,
		"max":        func(r *run, v value, a *args) value { return r.extreme("max", v, a, 1) },
		"min":        func(r *run, v value, a *args) value { return r.extreme("min", v, a, -1) },
		"reject":     func(r *run, v value, a *args) value { return r.choose(v, a, false, false) },
		"rejectattr": func(r *run, v value, a *args) value { return r.choose(v, a, true, false) },
		"replace": func(r *run, v value, a *args) value {
			to := a.take(r, "replace", "old", "new", "count")
			return r.replace(r.text(v), r.text(to[0]), r.text(to[1]), r.intOf(to[2], -1))
		},
		"reverse": func(r *run, v value, _ *args) value {
			items := r.mapped(r.items(v), func(x value) value { return x })
			slices.Reverse(items)
			if _, ok := v.(string); ok {
				return r.join(items, "")
			}
			return &list{items: items}
		},
		"round":      round,
		"safe":       func(_ *run, v value, _ *args) value { return v },
		"select":     func(r *run, v value, a *args) value { return r.choose(v, a, false, true) },
		"selectattr": func(r *run, v value, a *args) value { return r.choose(v, a, true, true) },
		"sort":       sortItems,
		"string":     func(r *run, v value, _ *args) value { return r.text(v) },
		"sum": func(r *run, v value, a *args) value {
			by := a.take(r, "sum", "attribute", "start")
			sum := valueOr(by[1], int64(0))
			for _, item := range r.items(v) {
				sum = (&binaryExpr{"+", constExpr{sum}, constExpr{r.attribute(item, by[0])}}).eval(r)
			}
			return sum
		},
		"title":  func(r *run, v value, _ *args) value { return title(r.text(v)) },
		"tojson": toJSON,
		"trim": func(r *run, v value, a *args) value {
			return strip(r.text(v), a.take(r, "trim", "chars")[0], both)
		},
		"truncate":  truncate,
		"unique":    unique,
		"upper":     func(r *run, v value, _ *args) value { return strings.ToUpper(r.text(v)) },
		"wordcount": func(r *run, v value, _ *args) value { return int64(words(r.text(v))) },
	}
}

// text returns the text that prints for a value, and counts the work.
func (r *run) text(v value) string {
	s := r.str(v)
	r.spend(len(s))
	return s
}

func (r *run) float(v value) float64 {
	f, ok := number(v)
	if !ok {
		r.fail("found %s, want a number", typeName(v))
	}
	return f
}

func (r *run) mapping(v value) *dict {
	d, ok := v.(*dict)
	if !ok {
		r.fail("found %s, want a mapping", typeName(v))
	}
	return d
}

func firstOf(items []value) value {
	if len(items) == 0 {
		return undefined{"an element of an empty list"}
	}
	return items[0]
}

// mapped returns a new list with f applied to each element.
func (r *run) mapped(items []value, f func(value) value) []value {
	r.spend(itemWork * len(items))
	out := make([]value, len(items))
	for i, item := range items {
		out[i] = f(item)
	}
	return out
}

// pair returns a tuple of two elements.
func pair(a, b value) *list { return &list{[]value{a, b}, true} }

// pairs returns the keys and values of a mapping as tuples.
func (r *run) pairs(d *dict) *list {
	r.spend(4 * itemWork * len(d.keys))
	l := &list{}
	for i, k := range d.keys {
		l.items = append(l.items, pair(k, d.vals[i]))
	}
	return l
}

// path returns the attribute of x with a dotted name, or the element with a number.
func (r *run) path(x, name value) value {
	s, ok := name.(string)
	if !ok {
		return r.element(x, name)
	}
	r.spend(len(s))
	for part := range strings.SplitSeq(s, ".") {
		at := value(part)
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			at = n
		}
		x = r.element(x, at)
	}
	return x
}

// attribute returns x, or an attribute of it (see path) if there is a name.
func (r *run) attribute(x, name value) value {
	if absent(name) {
		return x
	}
	return r.path(x, name)
}

// join concatenates the texts of values with a separator between them.
func (r *run) join(items []value, between string) string {
	var b strings.Builder
	for i, item := range items {
		s := r.str(item)
		r.spend(len(s) + len(between))
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(s)
	}
	return b.String()
}

func (r *run) replace(s, old, new string, count int64) string {
	n := int64(strings.Count(s, old))
	if count >= 0 {
		n = min(n, count)
	}
	r.times(int64(len(new)), n)
	r.spend(len(s))
	return strings.Replace(s, old, new, int(n))
}

func orDefault(r *run, v value, a *args) value {
	to := a.take(r, "default", "default_value", "boolean")
	if absent(v) || boolOf(to[1], false) && !truth(v) {
		return valueOr(to[0], "")
	}
	return v
}

func escape(r *run, v value, _ *args) value {
	s := r.text(v)
	r.spend(5 * len(s))
	return html.EscapeString(s)
}

func toJSON(r *run, v value, a *args) value {
	to := a.take(r, "tojson", "indent", "ensure_ascii", "separators", "sort_keys")
	style := jsonStyle{item: ", ", key: ": ", ascii: boolOf(to[1], false), sorted: boolOf(to[3], false)}
	if s, ok := to[0].(string); ok {
		style.indent, style.lines = s, true
	} else if n := r.intOf(to[0], -1); n >= 0 {
		r.times(1, n)
		style.indent, style.lines = strings.Repeat(" ", int(n)), true
	}
	if style.lines {
		style.item = ","
	}
	if !absent(to[2]) && to[2] != nil {
		parts := r.items(to[2])
		if len(parts) != 2 {
			r.fail("tojson: found %d separators, want 2", len(parts))
		}
		style.item, style.key = r.textOf(parts[0], ""), r.textOf(parts[1], "")
	}
	return r.json(v, style, 0)
}

func indent(r *run, v value, a *args) value {
	to := a.take(r, "indent", "width", "first", "blank")
	s, by := r.text(v), ""
	if t, ok := to[0].(string); ok {
		by = t
	} else {
		n := max(0, r.intOf(to[0], 4))
		r.times(1, n)
		by = strings.Repeat(" ", int(n))
	}
	r.spend(itemWork * strings.Count(s, "\n"))
	lines := strings.Split(s, "\n")
	r.times(int64(len(by)), int64(len(lines)))
	for i, line := range lines {
		if i == 0 && !boolOf(to[1], false) || line == "" && !boolOf(to[2], false) && i > 0 {
			continue
		}
		lines[i] = by + line
	}
	return strings.Join(lines, "\n")
}

func round(r *run, v value, a *args) value {
	to := a.take(r, "round", "precision", "method")
	x, p := r.float(v), r.intOf(to[0], 0)
	scale := math.Pow(10, float64(min(max(p, -300), 300)))
	switch method := r.textOf(to[1], "common"); method {
	case "common":
		if n, whole := integer(v); whole && p >= 0 {
			return n
		}
		if p >= 0 {
			x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'f', int(min(p, 300)), 64), 64)
			return x
		}
		return math.RoundToEven(x*scale) / scale
	case "ceil":
		return math.Ceil(x*scale) / scale
	case "floor":
		return math.Floor(x*scale) / scale
	default:
		r.fail("round: found the method %.20q, want common, ceil or floor", method)
		return nil
	}
}

// toInt returns Python's int() of a value, truncated towards zero.
func toInt(v value) (int64, bool) {
	if n, ok := integer(v); ok {
		return n, true
	}
	if s, ok := v.(string); ok {
		if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64); err == nil {
			return n, true
		}
	}
	f, ok := toFloat(v)
	return int64(f), ok && math.Abs(f) < 1<<62
}

func toFloat(v value) (float64, bool) {
	if s, ok := v.(string); ok {
		f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		return f, err == nil
	}
	return number(v)
}

func capitalize(s string) string {
	for i, c := range s {
		return string(unicode.ToUpper(c)) + strings.ToLower(s[i+len(string(c)):])
	}
	return s
}

// title converts the first letter of each word to upper case, as the filter does: words end at blanks and brackets.
func title(s string) string {
	var b strings.Builder
	begins := true
	for _, c := range s {
		if begins {
			b.WriteRune(unicode.ToUpper(c))
		} else {
			b.WriteRune(unicode.ToLower(c))
		}
		begins = unicode.IsSpace(c) || strings.ContainsRune("-({[<", c)
	}
	return b.String()
}

func truncate(r *run, v value, a *args) value {
	to := a.take(r, "truncate", "length", "killwords", "end", "leeway")
	s, end := r.text(v), r.textOf(to[2], "...")
	most, leeway := r.intOf(to[0], 255), r.intOf(to[3], 5)
	size := int64(r.length(s))
	if size <= most+leeway {
		return s
	}
	s = r.runeSlice(s, 0, max(0, min(size, most-int64(r.length(end)))), 1)
	if i := strings.LastIndexByte(s, ' '); i >= 0 && !boolOf(to[1], false) {
		s = s[:i]
	}
	return s + end
}
