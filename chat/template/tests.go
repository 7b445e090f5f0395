package template

import (
	"strings"
	"unicode"
)

// test evaluates "v is name(arguments)".
func (r *run) test(name string, v value, a *args) bool {
	if t, ok := plainTests[name]; ok {
		return t(v)
	}
	if op, ok := comparing[name]; ok {
		return r.holds(op, v, a.take(r, name, "other")[0])
	}
	switch name {
	case "even", "odd", "divisibleby":
		n, by := r.intOf(v, 0), int64(2)
		if absent(v) || v == nil {
			r.fail("is %s: found %s, want a whole number", name, typeName(v))
		}
		if name == "divisibleby" {
			by = r.intOf(a.take(r, name, "num")[0], 0)
		}
		if by == 0 {
			r.fail("found a division by zero")
		}
		return (n%by == 0) != (name == "odd")
	case "lower", "upper":
		s := r.text(v)
		is, other := unicode.IsLower, unicode.IsUpper
		if name == "upper" {
			is, other = other, is
		}
		return strings.IndexFunc(s, is) >= 0 && strings.IndexFunc(s, other) < 0
	case "sameas":
		other := a.take(r, name, "other")[0]
		switch v.(type) {
		case *list, *dict, *namespace, *function, *loop:
			return v == other
		}
		return typeName(v) == typeName(other) && r.equal(v, other, 0)
	case "filter", "test":
		_, ok := filters[r.text(v)]
		if name == "test" {
			_, ok = plainTests[r.text(v)]
		}
		return ok
	}
	r.fail("found the test %.40q, which is not known", name)
	return false
}

// comparing maps the tests that are comparisons to their operators.
var comparing = map[string]string{
	"eq": "==", "equalto": "==", "==": "==", "ne": "!=", "!=": "!=", "lt": "<", "lessthan": "<", "<": "<",
	"gt": ">", "greaterthan": ">", ">": ">", "le": "<=", "<=": "<=", "ge": ">=", ">=": ">=", "in": "in",
}

// plainTests holds the tests that depend on the type of a value alone.
var plainTests = map[string]func(v value) bool{
	"boolean":   func(v value) bool { _, ok := v.(bool); return ok },
	"callable":  func(v value) bool { _, ok := v.(*function); return ok },
	"defined":   func(v value) bool { return !absent(v) },
	"escaped":   func(value) bool { return false },
	"false":     func(v value) bool { return v == false },
	"float":     func(v value) bool { _, ok := v.(float64); return ok },
	"integer":   func(v value) bool { _, ok := v.(int64); return ok },
	"iterable":  iterable,
	"mapping":   func(v value) bool { _, ok := v.(*dict); return ok },
	"none":      func(v value) bool { return v == nil },
	"number":    func(v value) bool { _, ok := number(v); return ok },
	"sequence":  iterable,
	"string":    func(v value) bool { _, ok := v.(string); return ok },
	"true":      func(v value) bool { return v == true },
	"undefined": absent,
}

func iterable(v value) bool {
	switch v.(type) {
	case string, *list, *dict, undefined:
		return true
	}
	return false
}
