package template

import (
	"fmt"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// globals holds the functions that every template can call.
var globals = &scope{vars: map[string]value{}}

func init() {
	for name, call := range map[string]func(r *run, a *args) value{
		"range":     rangeOf,
		"namespace": func(r *run, a *args) value { return &namespace{r.dictOf(a)} },
		"dict":      func(r *run, a *args) value { return r.dictOf(a) },
		"raise_exception": func(r *run, a *args) value {
			message := r.text(a.take(r, "raise_exception", "message")[0])
			fault.Raise(&Error{Line: r.line, Text: message, Raised: true})
			return nil
		},
		"strftime_now": func(r *run, a *args) value {
			return r.strftime(r.textOf(a.take(r, "strftime_now", "format")[0], ""))
		},
		"joiner": func(r *run, a *args) value {
			between, used := r.textOf(a.take(r, "joiner", "sep")[0], ", "), false
			return &function{"joiner", func(*run, *args) value {
				if !used {
					used = true
					return ""
				}
				return between
			}}
		},
	} {
		globals.vars[name] = &function{name, call}
	}
}

// rangeOf implements range(stop) and range(start, stop, step).
func rangeOf(r *run, a *args) value {
	to := a.take(r, "range", "start", "stop", "step")
	start, stop, step := int64(0), r.intOf(to[0], 0), r.intOf(to[2], 1)
	if !absent(to[1]) {
		start, stop = stop, r.intOf(to[1], 0)
	}
	if step == 0 {
		r.fail("range: found 0 as its step")
	}
	out := &list{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out.items) == maxRange {
			r.fail("range: found more than %d numbers", maxRange)
		}
		r.spend(itemWork)
		out.items = append(out.items, i)
		if next := i + step; (next > i) != (step > 0) {
			break
		}
	}
	return out
}

// dictOf returns a mapping made of another mapping or of pairs, and of keyword arguments.
func (r *run) dictOf(a *args) *dict {
	d := newDict()
	if len(a.pos) > 1 {
		r.fail("dict: found %d arguments, want at most 1 without a name", len(a.pos))
	}
	for _, from := range a.pos {
		if m, ok := from.(*dict); ok {
			for i, k := range m.keys {
				r.put(d, k, m.vals[i])
			}
			continue
		}
		for _, item := range r.items(from) {
			two := r.items(item)
			if len(two) != 2 {
				r.fail("dict: found %d values, want a key and a value", len(two))
			}
			r.put(d, two[0], two[1])
		}
	}
	for i, k := range a.named.keys {
		r.put(d, k, a.named.vals[i])
	}
	return d
}

// strftime returns the time of rendering in a format of C's strftime.
func (r *run) strftime(format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		plain := format[i] == '-' && i+1 < len(format) // without leading zeros
		if plain {
			i++
		}
		text, ok := strftimeCode(r.now, format[i])
		switch {
		case !ok && plain:
			text = format[i-2 : i+1]
		case !ok:
			text = format[i-1 : i+1]
		case plain && len(text) > 1:
			text = strings.TrimLeft(text[:len(text)-1], "0 ") + text[len(text)-1:]
		}
		r.spend(len(text))
		b.WriteString(text)
	}
	return b.String()
}

// strftimeCode returns the text for one letter of a format.
func strftimeCode(t time.Time, code byte) (string, bool) {
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'd': "02", 'e': "_2", 'm': "01", 'y': "06",
		'Y': "2006", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'F': "2006-01-02", 'T': "15:04:05",
		'R': "15:04", 'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05", 'c': "Mon Jan _2 15:04:05 2006", 'Z': "MST",
		'z': "-0700", 'j': "002", 'n': "\n", 't': "\t", '%': "%",
	}
	if layout, ok := layouts[code]; ok {
		return t.Format(layout), true
	}
	switch code {
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	}
	return "", false
}
