package template

import (
	"slices"
	"strings"
)

// args holds the arguments of a call.
type args struct {
	pos   []value
	named *dict // keyword arguments
}

func (a *argExprs) eval(r *run) *args {
	out := &args{named: newDict()}
	for _, x := range a.pos {
		out.pos = append(out.pos, x.eval(r))
	}
	if a.spread != nil {
		more := r.items(a.spread.eval(r))
		r.spend(itemWork * len(more))
		out.pos = append(out.pos, more...)
	}
	for i, name := range a.names {
		out.named.set(name, a.named[i].eval(r))
	}
	if a.mapping != nil {
		v := a.mapping.eval(r)
		d, ok := v.(*dict)
		if !ok {
			r.fail("found ** before %s, want a mapping", typeName(v))
		}
		for i, k := range d.keys {
			name, ok := k.(string)
			if !ok {
				r.fail("found %s as the name of an argument, want a text", typeName(k))
			}
			r.put(out.named, name, d.vals[i])
		}
	}
	return out
}

// take binds arguments to names, in their order. A missing argument is undefined.
func (a *args) take(r *run, what string, names ...string) []value {
	if len(a.pos) > len(names) {
		r.fail("%s: found %d arguments, want at most %d", what, len(a.pos), len(names))
	}
	out := make([]value, len(names))
	for i, name := range names {
		out[i], _ = a.named.get(name)
	}
	copy(out, a.pos)
	for _, k := range a.named.keys {
		if !slices.Contains(names, k.(string)) {
			r.fail("%s: found the argument %.40q, want one of %s", what, k, strings.Join(names, ", "))
		}
	}
	return out
}

func absent(v value) bool { _, ok := v.(undefined); return ok }

// valueOr returns v, or def if v is missing.
func valueOr(v, def value) value {
	if absent(v) {
		return def
	}
	return v
}

// textOf, intOf and boolOf return an argument as a text, a whole number or a truth value, or def if it is missing or
// none.
func (r *run) textOf(v value, def string) string {
	if s, ok := v.(string); ok {
		return s
	}
	if !absent(v) && v != nil {
		r.fail("found %s, want a text", typeName(v))
	}
	return def
}

func (r *run) intOf(v value, def int64) int64 {
	if n, ok := integer(v); ok {
		return n
	}
	if !absent(v) && v != nil {
		r.fail("found %s, want a whole number", typeName(v))
	}
	return def
}

func boolOf(v value, def bool) bool { return truth(valueOr(v, def)) }
