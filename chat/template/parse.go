package template

import "slices"

// parser parses tokens into nodes.
type parser struct {
	tokens []token
	at     int
	depth  int // of nesting
	loops  int // number of loops around the statement
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != endToken {
		p.at++
	}
	return t
}

// is reports whether the next token is that operator or name.
func (p *parser) is(k kind, text string) bool { t := p.peek(); return t.kind == k && t.text == text }

// skip takes the next token if it is that operator or name.
func (p *parser) skip(k kind, text string) bool {
	if !p.is(k, text) {
		return false
	}
	p.at++
	return true
}

func (p *parser) op(text string) bool   { return p.skip(opToken, text) }
func (p *parser) word(text string) bool { return p.skip(nameToken, text) }

func (p *parser) wantOp(text string) {
	if !p.op(text) {
		p.unexpected(text)
	}
}

func (p *parser) wantKind(k kind, what string) token {
	if p.peek().kind != k {
		p.unexpected(what)
	}
	return p.next()
}

func (p *parser) unexpected(want string) {
	t := p.peek()
	found := t.text
	if t.kind == endToken {
		found = "the end"
	}
	fail(t.line, "found %.40q, want %s", found, want)
}

// nest increments the nesting depth until the function that it returns is called.
func (p *parser) nest() func() {
	if p.depth++; p.depth > maxDepth {
		fail(p.peek().line, "it nests deeper than %d", maxDepth)
	}
	return func() { p.depth-- }
}

// chained counts an operator and fails if there are too many in a row.
func (p *parser) chained(n *int) {
	if *n++; *n > maxChain {
		fail(p.peek().line, "more than %d operators in a row", maxChain)
	}
}

// body parses statements, in a nested block, up to one of the words in ends, and returns that word. It does not read
// the %} after the word. Without words it parses up to the end of the template.
func (p *parser) body(inside string, ends ...string) ([]stmt, string) {
	defer p.nest()()
	var body []stmt
	begun := p.peek().line
	for {
		switch t := p.next(); t.kind {
		case endToken:
			if len(ends) > 0 {
				fail(begun, "%s has no %s", inside, ends[len(ends)-1])
			}
			return body, ""
		case textToken:
			body = append(body, textStmt(t.text))
		case openValue:
			body = append(body, &printStmt{t.line, p.tuple()})
			p.wantKind(closeValue, "}}")
		default: // openBlock
			name := p.wantKind(nameToken, "the name of a statement")
			if slices.Contains(ends, name.text) {
				return body, name.text
			}
			body = append(body, p.stmt(name))
		}
	}
}

// until parses the rest of a block tag, and its body up to the tag {% end %}.
func (p *parser) until(end string) []stmt {
	p.close()
	body, _ := p.body("{% "+end[len("end"):]+" %}", end)
	p.close()
	return body
}

func (p *parser) close() { p.wantKind(closeBlock, "%}") }

// stmt parses a statement after its name.
func (p *parser) stmt(name token) stmt {
	line := name.line
	switch name.text {
	case "if":
		return p.ifStmt(line)
	case "for":
		return p.forStmt(line)
	case "set":
		return p.setStmt(line)
	case "macro":
		s := &macroStmt{line: line, name: p.wantKind(nameToken, "the name of the macro").text}
		s.params = p.params()
		s.body = p.outside(func() []stmt { return p.until("endmacro") })
		return s
	case "call":
		s := &callStmt{line: line}
		if p.is(opToken, "(") {
			s.params = p.params()
		}
		call, ok := p.expr().(*callExpr)
		if !ok {
			fail(line, "{%% call %%}: found no call, want one such as name()")
		}
		s.call = call
		s.body = p.outside(func() []stmt { return p.until("endcall") })
		return s
	case "filter":
		s := &filterStmt{line: line, filters: []*filterExpr{p.filter(nil)}}
		s.filters = append(s.filters, p.filters()...)
		s.body = p.until("endfilter")
		return s
	case "with":
		s := &withStmt{line: line}
		for !p.is(closeBlock, "%}") {
			if len(s.sets) > 0 {
				p.wantOp(",")
			}
			t := p.target(false)
			p.wantOp("=")
			s.sets = append(s.sets, &setStmt{line, t, p.expr()})
		}
		s.body = p.until("endwith")
		return s
	case "generation": // the assistant's text, which transformers marks for training
		return &withStmt{line: line, plain: true, body: p.until("endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			fail(line, "found %s outside of a loop", name.text)
		}
		p.close()
		if name.text == "break" {
			return loopStmt(breaking)
		}
		return loopStmt(continuing)
	case "include", "import", "from", "extends", "block":
		fail(line, "found %s, which chat templates do not have: they read no other files", name.text)
	}
	fail(line, "found the statement %.40q, want one of if, for, set, macro, call, filter, with, generation, break, "+
		"continue, raw", name.text)
	return nil
}

// outside parses a body that does not belong to the loops around it.
func (p *parser) outside(parse func() []stmt) []stmt {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	return parse()
}

func (p *parser) ifStmt(line int) stmt {
	s := &ifStmt{line: line}
	for {
		cond := p.tuple()
		p.close()
		body, end := p.body("{% if %}", "elif", "else", "endif")
		s.cases = append(s.cases, ifCase{cond, body})
		if end == "elif" {
			continue
		}
		if end == "else" {
			p.close()
			s.other, _ = p.body("{% if %}", "endif")
		}
		p.close()
		return s
	}
}

func (p *parser) forStmt(line int) stmt {
	s := &forStmt{line: line, target: p.target(true)}
	if !p.word("in") {
		p.unexpected("in")
	}
	s.over = p.tupleOf(p.or)
	if p.word("if") {
		s.cond = p.expr()
	}
	s.recursive = p.word("recursive")
	p.close()
	p.loops++
	body, end := p.body("{% for %}", "else", "endfor")
	p.loops--
	if s.body = body; end == "else" {
		p.close()
		s.other, _ = p.body("{% for %}", "endfor")
	}
	p.close()
	return s
}

func (p *parser) setStmt(line int) stmt {
	t := p.target(true)
	if p.op("=") {
		s := &setStmt{line, t, p.tuple()}
		p.close()
		return s
	}
	s := &setBlockStmt{line: line, target: t, filters: p.filters()}
	s.body = p.until("endset")
	return s
}

// target parses a name or name.attribute or, with many, several names separated by commas.
func (p *parser) target(many bool) target {
	defer p.nest()()
	one := func() target {
		if p.op("(") {
			t := p.target(true)
			p.wantOp(")")
			return t
		}
		t := target{name: p.wantKind(nameToken, "a name").text}
		if p.op(".") {
			t.attr = p.wantKind(nameToken, "the name of an attribute").text
		}
		return t
	}
	t := one()
	if !many || !p.is(opToken, ",") {
		return t
	}
	parts := []target{t}
	for p.op(",") && p.peek().kind != closeBlock && !p.is(opToken, "=") && !p.is(opToken, ")") {
		parts = append(parts, one())
	}
	return target{parts: parts}
}

// params parses the parameters of a macro.
func (p *parser) params() (list []param) {
	p.wantOp("(")
	for !p.op(")") {
		if len(list) > 0 {
			p.wantOp(",")
		}
		a := param{name: p.wantKind(nameToken, "the name of a parameter").text}
		if p.op("=") {
			a.def = p.expr()
		}
		list = append(list, a)
	}
	return list
}

// filters parses any number of |name(arguments), for the text of a block.
func (p *parser) filters() (list []*filterExpr) {
	for p.op("|") {
		list = append(list, p.filter(nil))
	}
	return list
}

// filter parses a filter after its bar.
func (p *parser) filter(x expr) *filterExpr {
	f := &filterExpr{line: p.peek().line, x: x, name: p.wantKind(nameToken, "the name of a filter").text}
	if p.is(opToken, "(") {
		f.args = p.args()
	}
	return f
}
