package template

// loop is the variable loop inside a {% for %}.
type loop struct {
	items   []value
	i       int
	depth   int // number of enclosing loops of the same recursion, from 0
	again   *function
	changed value // last argument of loop.changed
}

func (s *forStmt) exec(r *run) flow {
	r.line = s.line
	s.each(r, s.over.eval(r), 0)
	return onward
}

// each runs the loop over the elements of v.
func (s *forStmt) each(r *run, v value, depth int) {
	home := r.scope
	items := r.items(v)
	if s.cond != nil {
		var some []value
		for _, item := range items {
			r.within(home, func() {
				r.line = s.line
				r.assign(s.target, item)
				if truth(s.cond.eval(r)) {
					some = append(some, item)
				}
			})
		}
		r.spend(itemWork * len(some))
		items = some
	}
	if len(items) == 0 {
		r.within(home, func() { r.block(s.other) })
		return
	}
	l := &loop{items: items, depth: depth}
	if s.recursive {
		l.again = &function{"loop", func(r *run, a *args) (text value) {
			children := a.take(r, "loop", "children")
			r.called(func() {
				r.within(home, func() {
					text = r.capture(func() { s.each(r, children[0], depth+1) })
				})
			})
			return text
		}}
	}
	for f := onward; l.i < len(items) && f != breaking; l.i++ {
		r.within(home, func() {
			r.step(0)
			r.line = s.line
			r.assign(s.target, items[l.i])
			r.scope.set("loop", l)
			f = r.block(s.body)
		})
	}
}

// attr returns an attribute of the variable loop.
func (l *loop) attr(name string) value {
	n := len(l.items)
	element := func(i int) value {
		if i < 0 || i >= n {
			return undefined{"loop." + name}
		}
		return l.items[i]
	}
	switch name {
	case "index":
		return int64(l.i + 1)
	case "index0":
		return int64(l.i)
	case "revindex":
		return int64(n - l.i)
	case "revindex0":
		return int64(n - l.i - 1)
	case "first":
		return l.i == 0
	case "last":
		return l.i == n-1
	case "length":
		return int64(n)
	case "depth":
		return int64(l.depth + 1)
	case "depth0":
		return int64(l.depth)
	case "previtem":
		return element(l.i - 1)
	case "nextitem":
		return element(l.i + 1)
	case "cycle":
		return &function{"loop.cycle", func(r *run, a *args) value {
			if len(a.pos) == 0 {
				r.fail("loop.cycle: found no values, want some")
			}
			return a.pos[l.i%len(a.pos)]
		}}
	case "changed":
		return &function{"loop.changed", func(r *run, a *args) value {
			now := &list{items: a.pos, tuple: true}
			same := l.changed != nil && r.equal(l.changed, now, 0)
			l.changed = now
			return !same
		}}
	}
	return undefined{"loop." + name}
}
