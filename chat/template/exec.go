package template

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// run is the state of one rendering.
type run struct {
	ctx   context.Context
	out   *strings.Builder
	scope *scope
	now   time.Time
	line  int // of the current statement
	depth int // of nested calls
	work  int // that is left, see maxWork
	steps int
}

// scope holds the variables of a loop, a macro, a with block or the template.
type scope struct {
	vars   map[string]value
	parent *scope
}

func newScope(parent *scope) *scope { return &scope{parent: parent} }

func (s *scope) get(name string) value {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return undefined{name}
}

func (s *scope) set(name string, v value) {
	if s.vars == nil {
		s.vars = map[string]value{}
	}
	s.vars[name] = v
}

// flow tells how a statement ended.
type flow int

const (
	onward flow = iota
	breaking
	continuing
)

func (r *run) fail(format string, args ...any) { fail(r.line, format, args...) }

// spend subtracts n from the work that is left. It is called before the work is done, and so before memory for it is
// allocated.
func (r *run) spend(n int) {
	if r.work -= n; n < 0 || r.work < 0 {
		r.fail("it does more work than a chat template may, or makes more text")
	}
}

// step counts one step of the evaluation. depth is the nesting depth of the current value.
func (r *run) step(depth int) {
	r.spend(stepWork)
	if depth > maxDepth {
		r.fail("a value nests deeper than %d", maxDepth)
	}
	if r.steps++; r.steps%1024 == 0 && r.ctx != nil {
		if err := r.ctx.Err(); err != nil {
			fault.Raise(err)
		}
	}
}

func (r *run) write(s string) {
	r.spend(len(s))
	r.out.WriteString(s)
}

// block runs statements until one leaves a loop.
func (r *run) block(body []stmt) flow {
	for _, s := range body {
		r.step(0)
		if f := s.exec(r); f != onward {
			return f
		}
	}
	return onward
}

// within runs f in a new scope below parent, and then restores the current scope.
func (r *run) within(parent *scope, f func()) {
	r.spend(scopeWork)
	before := r.scope
	r.scope = newScope(parent)
	f()
	r.scope = before
}

// capture returns the text that f writes.
func (r *run) capture(f func()) string {
	before := r.out
	r.out = &strings.Builder{}
	f()
	text := r.out.String()
	r.out = before
	return text
}

// called runs f as the body of a call. The depth of nested calls is limited.
func (r *run) called(f func()) {
	if r.depth++; r.depth > maxDepth {
		r.fail("calls inside of calls, deeper than %d", maxDepth)
	}
	line := r.line
	f()
	r.line = line
	r.depth--
}

func (s textStmt) exec(r *run) flow {
	r.write(string(s))
	return onward
}

func (s *printStmt) exec(r *run) flow {
	r.line = s.line
	r.write(r.str(s.x.eval(r)))
	return onward
}

func (s *ifStmt) exec(r *run) flow {
	for _, c := range s.cases {
		r.line = s.line
		if truth(c.cond.eval(r)) {
			return r.block(c.body)
		}
	}
	return r.block(s.other)
}

func (s loopStmt) exec(*run) flow { return flow(s) }

func (s *setStmt) exec(r *run) flow {
	r.line = s.line
	r.assign(s.target, s.x.eval(r))
	return onward
}

func (s *setBlockStmt) exec(r *run) flow {
	r.assign(s.target, r.filtered(s.line, s.filters, s.body))
	return onward
}

// filtered runs statements in a scope of their own and returns the text they write, after filters.
func (r *run) filtered(line int, filters []*filterExpr, body []stmt) (v value) {
	r.within(r.scope, func() { v = r.capture(func() { r.block(body) }) })
	r.line = line
	for _, f := range filters {
		v = f.apply(r, v)
	}
	return v
}

// assign assigns a value to a name or to an attribute of a namespace, or its elements to several names.
func (r *run) assign(t target, v value) {
	if t.parts != nil {
		items := r.items(v)
		if len(items) != len(t.parts) {
			r.fail("found %d values, want %d", len(items), len(t.parts))
		}
		for i, part := range t.parts {
			r.assign(part, items[i])
		}
		return
	}
	if t.attr == "" {
		r.scope.set(t.name, v)
		return
	}
	ns, ok := r.scope.get(t.name).(*namespace)
	if !ok {
		r.fail("%s: found %s, want a namespace, which alone can be changed", t.name, typeName(r.scope.get(t.name)))
	}
	ns.dict.set(t.attr, v)
}

func (s *filterStmt) exec(r *run) flow {
	r.write(r.str(r.filtered(s.line, s.filters, s.body)))
	return onward
}

func (s *withStmt) exec(r *run) (f flow) {
	if s.plain {
		return r.block(s.body)
	}
	r.line = s.line
	var values []value
	for _, set := range s.sets {
		values = append(values, set.x.eval(r))
	}
	r.within(r.scope, func() {
		for i, set := range s.sets {
			r.assign(set.target, values[i])
		}
		f = r.block(s.body)
	})
	return f
}

func (s *macroStmt) exec(r *run) flow {
	r.line = s.line
	r.scope.set(s.name, r.macro(s.name, s.params, s.body))
	return onward
}

// macro returns a function whose body writes text. The body sees the variables of the scope where the macro is defined.
func (r *run) macro(name string, params []param, body []stmt) *function {
	home := r.scope
	return &function{name, func(r *run, a *args) (text value) {
		r.called(func() {
			r.within(home, func() {
				r.bind(name, params, a)
				text = r.capture(func() { r.block(body) })
			})
		})
		return text
	}}
}

// bind sets the parameters of a macro, and varargs, kwargs and caller.
func (r *run) bind(name string, params []param, a *args) {
	for i, p := range params {
		v, given := a.named.get(p.name)
		switch {
		case i < len(a.pos) && given:
			r.fail("%s: found %s twice", name, p.name)
		case i < len(a.pos):
			v = a.pos[i]
		case given:
		case p.def != nil:
			v = p.def.eval(r)
		default:
			v = undefined{p.name}
		}
		r.scope.set(p.name, v)
	}
	r.scope.set("varargs", &list{items: a.pos[min(len(params), len(a.pos)):], tuple: true})
	rest := newDict()
	for i, k := range a.named.keys {
		if name := k.(string); name == "caller" {
			r.scope.set(name, a.named.vals[i])
		} else if !slices.ContainsFunc(params, func(p param) bool { return p.name == name }) {
			rest.set(name, a.named.vals[i])
		}
	}
	r.scope.set("kwargs", rest)
}

func (s *callStmt) exec(r *run) flow {
	r.line = s.line
	f := s.call.x.eval(r)
	a := s.call.args.eval(r)
	named := newDict()
	for i, k := range a.named.keys {
		named.set(k, a.named.vals[i])
	}
	named.set("caller", r.macro("caller", s.params, s.body))
	r.write(r.str(r.callValue(f, &args{a.pos, named})))
	return onward
}
