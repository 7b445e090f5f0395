package template

func (x constExpr) eval(*run) value  { return x.v }
func (x nameExpr) eval(r *run) value { return r.scope.get(string(x)) }

func (x *listExpr) eval(r *run) value {
	r.step(0)
	r.spend(itemWork * len(x.items))
	l := &list{tuple: x.tuple}
	for _, item := range x.items {
		l.items = append(l.items, item.eval(r))
	}
	return l
}

func (x *dictExpr) eval(r *run) value {
	r.step(0)
	d := newDict()
	for i, k := range x.keys {
		r.put(d, k.eval(r), x.vals[i].eval(r))
	}
	return d
}

// put sets an element of a new mapping.
func (r *run) put(d *dict, k, v value) {
	if _, ok := key(k); !ok {
		r.fail("found %s as a key, want a text or a number", typeName(k))
	}
	r.spend(4 * itemWork)
	d.set(k, v)
}

func (x *condExpr) eval(r *run) value {
	r.step(0)
	switch {
	case truth(x.cond.eval(r)):
		return x.then.eval(r)
	case x.other == nil:
		return undefined{"the value of an if without else"}
	}
	return x.other.eval(r)
}

func (x *boolExpr) eval(r *run) value {
	r.step(0)
	a := x.a.eval(r)
	if truth(a) != x.and {
		return a
	}
	return x.b.eval(r)
}

func (x *notExpr) eval(r *run) value { return !truth(x.x.eval(r)) }

func (x *signExpr) eval(r *run) value {
	r.step(0)
	v := x.x.eval(r)
	if n, ok := integer(v); ok {
		if x.minus {
			return -n
		}
		return n
	}
	f, ok := v.(float64)
	if !ok {
		r.fail("found a sign before %s, want a number", typeName(v))
	}
	if x.minus {
		return -f
	}
	return f
}

func (x *compareExpr) eval(r *run) value {
	a := x.x.eval(r)
	for i, op := range x.ops {
		b := x.with[i].eval(r)
		if !r.holds(op, a, b) {
			return false
		}
		a = b
	}
	return true
}

// holds evaluates a comparison.
func (r *run) holds(op string, a, b value) bool {
	r.step(0)
	switch op {
	case "==":
		return r.equal(a, b, 0)
	case "!=":
		return !r.equal(a, b, 0)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	case "<":
		return r.compare(a, b, 0) < 0
	case ">":
		return r.compare(a, b, 0) > 0
	case "<=":
		return r.compare(a, b, 0) <= 0
	}
	return r.compare(a, b, 0) >= 0
}

// attr returns v.name: a method or attribute of v, or else its element of that name.
func (r *run) attr(v value, name string) value {
	r.step(0)
	switch v := v.(type) {
	case undefined:
		r.fail("%s: its owner is %s", name, typeName(v))
	case *namespace:
		return v.dict.attr(name)
	case *loop:
		return v.attr(name)
	}
	if m := methodOf(v, name); m != nil {
		return &function{name, func(r *run, a *args) value { return m(r, v, a) }}
	}
	if d, ok := v.(*dict); ok {
		return d.attr(name)
	}
	return undefined{name}
}

// attr returns the element of a name.
func (d *dict) attr(name string) value {
	if x, ok := d.get(name); ok {
		return x
	}
	return undefined{name}
}

func (x *attrExpr) eval(r *run) value { return r.attr(x.x.eval(r), x.name) }

func (x *indexExpr) eval(r *run) value {
	return r.element(x.x.eval(r), x.at.eval(r))
}

// element returns v[at]: an element of v, or else its attribute.
func (r *run) element(v, at value) value {
	r.step(0)
	switch s := v.(type) {
	case undefined:
		r.fail("found %s, want something that has elements", typeName(v))
	case *dict:
		if x, ok := s.get(at); ok {
			return x
		}
	case *list, string:
		if n, ok := integer(at); ok {
			size := int64(r.length(v))
			if n < 0 {
				n += size
			}
			if n < 0 || n >= size {
				return undefined{"an element"}
			}
			if l, ok := v.(*list); ok {
				return l.items[n]
			}
			return r.runeSlice(v.(string), n, n+1, 1)
		}
	}
	if name, ok := at.(string); ok {
		return r.attr(v, name)
	}
	return undefined{"an element"}
}

func (x *sliceExpr) eval(r *run) value {
	r.step(0)
	v := x.x.eval(r)
	switch v.(type) {
	case string, *list:
	default:
		r.fail("found %s to cut, want a text or a list", typeName(v))
	}
	size := int64(r.length(v))
	bound := func(e expr, def int64) int64 {
		if e == nil {
			return def
		}
		at := e.eval(r)
		n, ok := integer(at)
		switch {
		case at == nil:
			return def
		case !ok:
			r.fail("found %s as a bound of a slice, want a whole number", typeName(at))
		}
		return n
	}
	step := bound(x.step, 1)
	if step == 0 {
		r.fail("found 0 as the step of a slice")
	}
	// As in Python, a negative index counts from the end, then the index is clamped to the range.
	low, high := int64(0), size
	if step < 0 {
		low, high = -1, size-1
	}
	place := func(e expr, def int64) int64 {
		n := bound(e, def)
		if e != nil && n < 0 && n != def {
			n += size
		}
		return min(max(n, low), high)
	}
	from, to := place(x.from, low), place(x.to, high)
	if step < 0 {
		from, to = place(x.from, high), place(x.to, low)
	}
	step = min(max(step, -size-1), size+1) // so that sums do not overflow
	if s, ok := v.(string); ok {
		return r.runeSlice(s, from, to, step)
	}
	l := v.(*list)
	if step == 1 {
		return &list{l.items[from:max(from, to)], l.tuple}
	}
	out := &list{tuple: l.tuple}
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		r.spend(itemWork)
		out.items = append(out.items, l.items[i])
	}
	return out
}

func (x *callExpr) eval(r *run) value {
	r.step(0)
	f := x.x.eval(r)
	return r.callValue(f, x.args.eval(r))
}

func (r *run) callValue(v value, a *args) value {
	switch f := v.(type) {
	case *function:
		return f.call(r, a)
	case *loop:
		if f.again != nil {
			return f.again.call(r, a)
		}
		r.fail("loop(): the loop is not recursive")
	}
	r.fail("found a call of %s, want a function or macro", typeName(v))
	return nil
}

func (x *filterExpr) eval(r *run) value {
	r.step(0)
	return x.apply(r, x.x.eval(r))
}

func (x *filterExpr) apply(r *run, v value) value {
	f, ok := filters[x.name]
	if !ok {
		fail(x.line, "found the filter %.40q, which is not known", x.name)
	}
	return f(r, v, x.args.eval(r))
}

func (x *testExpr) eval(r *run) value {
	r.step(0)
	return r.test(x.name, x.x.eval(r), x.args.eval(r)) != x.not
}
