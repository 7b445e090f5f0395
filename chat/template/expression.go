package template

import (
	"slices"
	"strconv"
	"strings"
)

// The operators of expressions, in order of increasing precedence: a if b else c; or; and; not; comparisons, in; + -;
// ~; * / // %; **; signs; then attributes, indices, calls, and last filters and tests. The order is Jinja's.

// tuple parses an expression, or several separated by commas.
func (p *parser) tuple() expr { return p.tupleOf(p.expr) }

func (p *parser) tupleOf(parse func() expr) expr {
	x := parse()
	if !p.is(opToken, ",") {
		return x
	}
	l := &listExpr{items: []expr{x}, tuple: true}
	for p.op(",") && p.beginsValue() {
		l.items = append(l.items, parse())
	}
	return l
}

// beginsValue reports whether the next token can begin an expression.
func (p *parser) beginsValue() bool {
	switch t := p.peek(); t.kind {
	case nameToken, stringToken, intToken, floatToken:
		return t.text != "if" && t.text != "recursive" || t.kind != nameToken
	case opToken:
		return slices.Contains([]string{"(", "[", "{", "-", "+"}, t.text)
	}
	return false
}

func (p *parser) expr() expr {
	defer p.nest()()
	x := p.or()
	for n := 0; p.word("if"); p.chained(&n) {
		c := &condExpr{then: x, cond: p.or()}
		if p.word("else") {
			c.other = p.expr()
		}
		x = c
	}
	return x
}

func (p *parser) or() expr  { return p.logical(p.and, "or") }
func (p *parser) and() expr { return p.logical(p.not, "and") }

// logical parses operands separated by a word.
func (p *parser) logical(operand func() expr, word string) expr {
	x := operand()
	for n := 0; p.word(word); p.chained(&n) {
		x = &boolExpr{word == "and", x, operand()}
	}
	return x
}

func (p *parser) not() expr {
	if !p.word("not") {
		return p.compare()
	}
	defer p.nest()()
	return &notExpr{p.not()}
}

var comparisons = []string{"==", "!=", "<", ">", "<=", ">="}

func (p *parser) compare() expr {
	x := p.sum()
	var c *compareExpr
	for n := 0; ; p.chained(&n) {
		op := ""
		switch t := p.peek(); {
		case t.kind == opToken && slices.Contains(comparisons, t.text), t.kind == nameToken && t.text == "in":
			op = p.next().text
		case t.kind == nameToken && t.text == "not" && p.tokens[p.at+1].text == "in":
			p.at += 2
			op = "not in"
		default:
			return x
		}
		if c == nil {
			c = &compareExpr{x: x}
			x = c
		}
		c.ops, c.with = append(c.ops, op), append(c.with, p.sum())
	}
}

// binary parses operands separated by one of some operators, from left to right.
func (p *parser) binary(operand func() expr, ops ...string) expr {
	x := operand()
	for n := 0; p.peek().kind == opToken && slices.Contains(ops, p.peek().text); p.chained(&n) {
		op := p.next().text
		x = &binaryExpr{op, x, operand()}
	}
	return x
}

func (p *parser) sum() expr     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() expr  { return p.binary(p.product, "~") }
func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr   { return p.binary(func() expr { return p.sign(true) }, "**") }

func (p *parser) sign(filtered bool) expr {
	defer p.nest()()
	var x expr
	switch {
	case p.op("-"):
		x = &signExpr{true, p.sign(false)}
	case p.op("+"):
		x = &signExpr{false, p.sign(false)}
	default:
		x = p.postfix(p.primary())
	}
	if filtered {
		x = p.filtered(x)
	}
	return x
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case nameToken:
		switch t.text {
		case "true", "True":
			return constExpr{true}
		case "false", "False":
			return constExpr{false}
		case "none", "None":
			return constExpr{nil}
		}
		return nameExpr(t.text)
	case stringToken:
		texts := []string{t.text}
		for p.peek().kind == stringToken {
			texts = append(texts, p.next().text)
		}
		return constExpr{strings.Join(texts, "")}
	case intToken:
		if n, err := strconv.ParseInt(t.text, 10, 64); err == nil {
			return constExpr{n}
		}
		fail(t.line, "found the number %.40s, want a smaller one", t.text)
	case floatToken:
		if x, err := strconv.ParseFloat(t.text, 64); err == nil {
			return constExpr{x}
		}
		fail(t.line, "found the number %.40s, want a smaller one", t.text)
	case opToken:
		switch t.text {
		case "(":
			if p.op(")") {
				return &listExpr{tuple: true}
			}
			x := p.tuple()
			p.wantOp(")")
			return x
		case "[":
			l := &listExpr{}
			p.list("]", func() { l.items = append(l.items, p.expr()) })
			return l
		case "{":
			d := &dictExpr{}
			p.list("}", func() {
				d.keys = append(d.keys, p.expr())
				p.wantOp(":")
				d.vals = append(d.vals, p.expr())
			})
			return d
		}
	}
	if t.kind != endToken {
		p.at--
	}
	p.unexpected("a value")
	return nil
}

// list parses elements separated by commas, up to end.
func (p *parser) list(end string, element func()) {
	for n := 0; !p.op(end); n++ {
		if n > 0 {
			if p.wantOp(","); p.op(end) {
				return
			}
		}
		element()
	}
}

// postfix parses attributes, indices and calls.
func (p *parser) postfix(x expr) expr {
	for n := 0; ; p.chained(&n) {
		switch {
		case p.op("."):
			switch t := p.next(); t.kind {
			case nameToken:
				x = &attrExpr{x, t.text}
			case intToken:
				i, _ := strconv.ParseInt(t.text, 10, 64)
				x = &indexExpr{x, constExpr{i}}
			default:
				p.at--
				p.unexpected("the name of an attribute")
			}
		case p.op("["):
			x = p.subscript(x)
		case p.is(opToken, "("):
			x = &callExpr{x, p.args()}
		default:
			return x
		}
	}
}

// subscript parses an index or a slice after its opening bracket.
func (p *parser) subscript(x expr) expr {
	var parts [3]expr
	colons := 0
	for !p.op("]") {
		if p.op(":") {
			if colons++; colons > 2 {
				p.unexpected("]")
			}
			continue
		}
		if parts[colons] != nil {
			p.unexpected("]")
		}
		parts[colons] = p.expr()
	}
	if colons == 0 {
		if parts[0] == nil {
			p.unexpected("an index")
		}
		return &indexExpr{x, parts[0]}
	}
	return &sliceExpr{x, parts[0], parts[1], parts[2]}
}

// args parses the arguments of a call.
func (p *parser) args() (a argExprs) {
	p.wantOp("(")
	p.list(")", func() {
		switch {
		case p.op("**"):
			a.mapping = p.expr()
		case p.op("*"):
			a.spread = p.expr()
		case p.peek().kind == nameToken && p.tokens[p.at+1].kind == opToken && p.tokens[p.at+1].text == "=":
			a.names = append(a.names, p.next().text)
			p.at++
			a.named = append(a.named, p.expr())
		default:
			if len(a.names) > 0 {
				p.unexpected("a name, as in the arguments before")
			}
			a.pos = append(a.pos, p.expr())
		}
	})
	return a
}

// filtered parses filters, tests and calls after a value.
func (p *parser) filtered(x expr) expr {
	for n := 0; ; p.chained(&n) {
		switch {
		case p.op("|"):
			x = p.filter(x)
		case p.word("is"):
			x = p.test(x)
		case p.is(opToken, "("):
			x = &callExpr{x, p.args()}
		default:
			return x
		}
	}
}

// test parses a test after "is".
func (p *parser) test(x expr) expr {
	t := &testExpr{x: x, not: p.word("not")}
	t.name = p.wantKind(nameToken, "the name of a test").text
	switch next := p.peek(); {
	case p.is(opToken, "("):
		t.args = p.args()
	case next.kind == nameToken && !slices.Contains([]string{"else", "or", "and", "if", "in", "not", "is"}, next.text),
		next.kind == stringToken, next.kind == intToken, next.kind == floatToken, p.is(opToken, "["),
		p.is(opToken, "{"):
		t.args.pos = []expr{p.postfix(p.primary())}
	}
	return t
}
