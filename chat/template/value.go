package template

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// value is the value of an expression: nil for none, bool, int64, float64, string, *list, *dict, *namespace, *function,
// *loop or undefined.
type value any

// undefined is a variable, attribute or element that does not exist. It is false and empty, and prints as the empty
// text. Any other use fails with an error that names it.
type undefined struct{ name string }

// list is a list or a tuple. It is never changed after a template can see it, so slices can share memory.
type list struct {
	items []value
	tuple bool
}

// dict is a mapping that keeps the order of its keys. It is never changed after a template can see it.
type dict struct {
	keys, vals []value
	at         map[value]int
}

// namespace is a mapping whose attributes {% set %} can change.
type namespace struct{ dict *dict }

// function is a callable value: a macro, a function or a method.
type function struct {
	name string
	call func(r *run, a *args) value
}

func newDict() *dict { return &dict{at: map[value]int{}} }

// key returns a value as the key of a mapping: 1, 1.0 and true are the same, as in Python. Only plain values can be
// keys.
func key(v value) (value, bool) {
	switch v := v.(type) {
	case nil, string, int64:
		return v, true
	case bool:
		n, _ := integer(v)
		return n, true
	case float64:
		if n := int64(v); float64(n) == v {
			return n, true
		}
		return v, !math.IsNaN(v)
	}
	return nil, false
}

func (d *dict) get(k value) (value, bool) {
	if k, ok := key(k); ok {
		if i, ok := d.at[k]; ok {
			return d.vals[i], true
		}
	}
	return undefined{}, false
}

// set sets an element. The key must be a plain value.
func (d *dict) set(name, v value) {
	k, _ := key(name)
	if i, ok := d.at[k]; ok {
		d.vals[i] = v
		return
	}
	d.at[k] = len(d.keys)
	d.keys, d.vals = append(d.keys, name), append(d.vals, v)
}

// size returns the approximate number of bytes of a value from JSON.
func (d *dict) size() int {
	n := itemWork
	for i, k := range d.keys {
		n += sizeOf(k) + sizeOf(d.vals[i])
	}
	return n
}

func sizeOf(v value) int {
	n := itemWork
	switch v := v.(type) {
	case string:
		n += len(v)
	case *list:
		for _, item := range v.items {
			n += sizeOf(item)
		}
	case *dict:
		n += v.size()
	}
	return n
}

// fromJSON reads JSON and keeps the order of keys.
func fromJSON(data []byte) (v value, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = fault.Catch(func() {
		if v = decode(d, 0); d.More() {
			fault.Raisef("found more text after the JSON value")
		}
	})
	return v, err
}

func decode(d *json.Decoder, depth int) value {
	if depth > maxDepth {
		fault.Raisef("found JSON that nests deeper than %d", maxDepth)
	}
	switch t := fault.Must(d.Token()).(type) {
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n
		}
		return fault.Must(t.Float64())
	case json.Delim:
		if t == '[' {
			l := &list{}
			for d.More() {
				l.items = append(l.items, decode(d, depth+1))
			}
			fault.Must(d.Token())
			return l
		}
		m := newDict()
		for d.More() {
			name := fault.Must(d.Token())
			m.set(name, decode(d, depth+1))
		}
		fault.Must(d.Token())
		return m
	default:
		return t // nil, bool, string
	}
}

// truth reports whether a value counts as true.
func truth(v value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *list:
		return len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// typeName returns Python's name of the type of a value.
func typeName(v value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case undefined:
		if v.name == "" {
			return "undefined value"
		}
		return v.name + ", which is undefined"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *list:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *dict:
		return "dict"
	case *namespace:
		return "namespace"
	}
	return "function"
}

// number returns a bool or number as a float64, and whether it is one.
func number(v value) (float64, bool) {
	if n, ok := integer(v); ok {
		return float64(n), true
	}
	f, ok := v.(float64)
	return f, ok
}

// integer returns a bool or int, and whether it is one.
func integer(v value) (int64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return v, true
	}
	return 0, false
}

// equal compares values as Python's == does.
func (r *run) equal(a, b value, depth int) bool {
	r.step(depth)
	if x, ok := integer(a); ok {
		if y, ok := integer(b); ok {
			return x == y
		}
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		if ok {
			r.spend(min(len(a), len(b)))
		}
		return ok && a == b
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *list:
		b, ok := b.(*list)
		return ok && a.tuple == b.tuple &&
			slices.EqualFunc(a.items, b.items, func(x, y value) bool { return r.equal(x, y, depth+1) })
	case *dict:
		b, ok := b.(*dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for i, k := range a.keys {
			if v, ok := b.get(k); !ok || !r.equal(a.vals[i], v, depth+1) {
				return false
			}
		}
		return true
	}
	return a == b // nil and pointers
}

// compare returns a number below, at or above 0 if a is less than, equal to or greater than b. Numbers, texts and lists
// are ordered.
func (r *run) compare(a, b value, depth int) int {
	r.step(depth)
	x, isNumber := number(a)
	y, both := number(b)
	switch {
	case isNumber && both:
		if n, ok := integer(a); ok {
			if m, ok := integer(b); ok {
				return order(n, m)
			}
		}
		return order(x, y)
	case !isNumber && !both:
		s, ok := a.(string)
		t, both := b.(string)
		if ok && both {
			r.spend(min(len(s), len(t)))
			return strings.Compare(s, t)
		}
		l, ok := a.(*list)
		m, both := b.(*list)
		if ok && both {
			for i := range min(len(l.items), len(m.items)) {
				if !r.equal(l.items[i], m.items[i], depth+1) {
					return r.compare(l.items[i], m.items[i], depth+1)
				}
			}
			return len(l.items) - len(m.items)
		}
	}
	r.fail("found %s and %s to compare, want two numbers or two texts", typeName(a), typeName(b))
	return 0
}

func order[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// contains implements Python's x in all.
func (r *run) contains(all, x value) bool {
	switch all := all.(type) {
	case string:
		s, ok := x.(string)
		if !ok {
			r.fail("found %s in a text, want a text", typeName(x))
		}
		r.spend(len(all))
		return strings.Contains(all, s)
	case *dict:
		_, ok := all.get(x)
		return ok
	}
	return slices.ContainsFunc(r.items(all), func(item value) bool { return r.equal(item, x, 0) })
}

// items returns the elements that a loop over v visits: the elements of a list, the keys of a mapping, the characters
// of a text.
func (r *run) items(v value) []value {
	switch v := v.(type) {
	case *list:
		return v.items
	case *dict:
		return v.keys
	case string:
		r.spend(itemWork * len(v))
		out := make([]value, 0, len(v))
		for len(v) > 0 {
			_, n := utf8.DecodeRuneInString(v)
			out, v = append(out, v[:n]), v[n:]
		}
		return out
	case undefined:
		return nil
	}
	r.fail("found %s, want a list", typeName(v))
	return nil
}

// length returns Python's len(v).
func (r *run) length(v value) int {
	switch v := v.(type) {
	case string:
		r.spend(len(v))
		return utf8.RuneCountInString(v)
	case *list:
		return len(v.items)
	case *dict:
		return len(v.keys)
	case undefined:
		return 0
	}
	r.fail("found %s, want something that has a length", typeName(v))
	return 0
}
