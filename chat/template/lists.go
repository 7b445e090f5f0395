package template

import (
	"slices"
	"strings"
)

// folded returns the value with which a value is compared: lower case if the comparison is not case-sensitive.
func (r *run) folded(v value, sensitive bool) value {
	if s, ok := v.(string); ok && !sensitive {
		r.spend(len(s))
		return strings.ToLower(s)
	}
	return v
}

// sorted returns items in the order of their keys. The sort is stable.
func (r *run) sorted(items []value, by func(value) value, reverse bool) []value {
	type keyed struct{ key, item value }
	r.spend(3 * itemWork * len(items))
	all := make([]keyed, len(items))
	for i, item := range items {
		all[i] = keyed{by(item), item}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if reverse {
			return r.compare(b.key, a.key, 0)
		}
		return r.compare(a.key, b.key, 0)
	})
	out := make([]value, len(all))
	for i, k := range all {
		out[i] = k.item
	}
	return out
}

func sortItems(r *run, v value, a *args) value {
	to := a.take(r, "sort", "reverse", "case_sensitive", "attribute")
	sensitive := boolOf(to[1], false)
	names := []value{to[2]}
	if several, ok := to[2].(string); ok {
		names = texts(strings.Split(several, ",")).items
	}
	by := func(x value) value {
		l := &list{}
		for _, name := range names {
			at := x
			if !absent(name) && name != nil {
				at = r.path(x, name)
			}
			l.items = append(l.items, r.folded(at, sensitive))
		}
		return l
	}
	return &list{items: r.sorted(r.items(v), by, boolOf(to[0], false))}
}

func dictSort(r *run, v value, a *args) value {
	to := a.take(r, "dictsort", "case_sensitive", "by", "reverse")
	at := 0
	switch by := r.textOf(to[1], "key"); by {
	case "key":
	case "value":
		at = 1
	default:
		r.fail("dictsort: found by=%.20q, want key or value", by)
	}
	sensitive := boolOf(to[0], false)
	return &list{items: r.sorted(r.pairs(r.mapping(v)).items, func(x value) value {
		return r.folded(x.(*list).items[at], sensitive)
	}, boolOf(to[2], false))}
}

// sortedPairs returns the keys and values of a mapping in the order of its keys.
func (r *run) sortedPairs(d *dict) (keys, vals []value) {
	for _, p := range r.sorted(r.pairs(d).items, func(x value) value { return x.(*list).items[0] }, false) {
		keys, vals = append(keys, p.(*list).items[0]), append(vals, p.(*list).items[1])
	}
	return keys, vals
}

// extreme returns the largest (sign 1) or smallest (-1) element.
func (r *run) extreme(what string, v value, a *args, sign int) value {
	to := a.take(r, what, "case_sensitive", "attribute")
	by := func(x value) value { return r.folded(r.attribute(x, to[1]), boolOf(to[0], false)) }
	items := r.items(v)
	best := firstOf(items)
	for _, item := range items[min(1, len(items)):] {
		if sign*r.compare(by(item), by(best), 0) > 0 {
			best = item
		}
	}
	return best
}

func unique(r *run, v value, a *args) value {
	to := a.take(r, "unique", "case_sensitive", "attribute")
	out, plain := &list{}, newDict()
	var others []value
	for _, item := range r.items(v) {
		by := r.folded(r.attribute(item, to[1]), boolOf(to[0], false))
		seen := false
		if _, ok := key(by); ok {
			if _, seen = plain.get(by); !seen {
				r.put(plain, by, nil)
			}
		} else if seen = slices.ContainsFunc(others, func(x value) bool { return r.equal(x, by, 0) }); !seen {
			others = append(others, by)
		}
		if !seen {
			r.spend(2 * itemWork)
			out.items = append(out.items, item)
		}
	}
	return out
}

func batch(r *run, v value, a *args) value {
	to := a.take(r, "batch", "linecount", "fill_with")
	n := r.intOf(to[0], 0)
	if n < 1 {
		r.fail("batch: found %d, want at least 1", n)
	}
	items := r.items(v)
	r.spend(2 * itemWork * len(items))
	out := &list{}
	for len(items) > 0 {
		row := slices.Clip(items[:min(n, int64(len(items)))])
		items = items[len(row):]
		if !absent(to[1]) && int64(len(row)) < n {
			r.times(itemWork, n)
			for int64(len(row)) < n {
				row = append(row, to[1])
			}
		}
		out.items = append(out.items, &list{items: row})
	}
	return out
}

// groupBy returns a list of tuples: the common value of a group, and the elements of the group.
func groupBy(r *run, v value, a *args) value {
	to := a.take(r, "groupby", "attribute", "default", "case_sensitive")
	by := func(x value) value {
		at := r.path(x, to[0])
		if absent(at) && !absent(to[1]) {
			at = to[1]
		}
		return at
	}
	folded := func(x value) value { return r.folded(by(x), boolOf(to[2], false)) }
	out := &list{}
	var last *list
	for _, item := range r.sorted(r.items(v), folded, false) {
		r.spend(2 * itemWork)
		if last == nil || !r.equal(folded(last.items[0]), folded(item), 0) {
			last = &list{}
			out.items = append(out.items, pair(by(item), last))
		}
		last.items = append(last.items, item)
	}
	return out
}

// mapItems implements the filter map: it returns an attribute of each element, or applies a filter to each.
func mapItems(r *run, v value, a *args) value {
	if !truth(v) { // as in Jinja, none is also an empty list here
		return &list{}
	}
	if name, ok := a.named.get("attribute"); ok {
		def, _ := a.named.get("default")
		return &list{items: r.mapped(r.items(v), func(x value) value {
			if x = r.path(x, name); absent(x) && !absent(def) {
				return def
			}
			return x
		})}
	}
	if len(a.pos) == 0 {
		r.fail("map: found nothing to do, want an attribute or the name of a filter")
	}
	name := r.textOf(a.pos[0], "")
	f, ok := filters[name]
	if !ok {
		r.fail("map: found the filter %.40q, which is not known", name)
	}
	rest := &args{a.pos[1:], a.named}
	return &list{items: r.mapped(r.items(v), func(x value) value { r.step(0); return f(r, x, rest) })}
}

// choose returns the elements of v for which a test gives want. The first argument is the name of the test. With attr,
// the first argument names an attribute, and the test applies to that attribute. Without a test, choose uses the truth
// value.
func (r *run) choose(v value, a *args, attr, want bool) value {
	pos, of := a.pos, func(x value) value { return x }
	if attr {
		if len(pos) == 0 {
			r.fail("found no attribute to select by")
		}
		name := pos[0]
		pos, of = pos[1:], func(x value) value { return r.path(x, name) }
	}
	holds := truth
	if len(pos) > 0 {
		name, rest := r.textOf(pos[0], ""), &args{pos[1:], a.named}
		holds = func(x value) bool { return r.test(name, x, rest) }
	}
	out := &list{}
	if !truth(v) { // as in mapItems
		return out
	}
	for _, item := range r.items(v) {
		r.step(0)
		if holds(of(item)) == want {
			out.items = append(out.items, item)
		}
	}
	return out
}
