package constrain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// Lark returns the grammar of a source in the format of Lark, with the start rule start. It has the texts that Lark's
// Earley parser accepts with the lexer dynamic_complete. Terminals have no priorities and need not be the longest
// match. Ignored terminals (%ignore) may occur before, between and after the terminals of rules. Rules may be
// left-recursive.
func Lark(source string) (*Grammar, error) {
	return build(func(b *builder) int32 { return newLark("", source).write(b, rawText) })
}

// lark parses a grammar in the format of Lark.
type lark struct {
	rules
	ignored [][]symbol
	known   map[string]*rule // rules of regular expressions
	common  *lark            // Lark's predefined terminals, nil until they are imported
}

func newLark(path, source string) *rules {
	l := readLark(path, source)
	l.start("start")
	l.terminals()
	l.ignore()
	l.empties()
	for _, way := range l.ignored {
		if r := way[0].rule; r.empty {
			fail(l.place(r.at), "found %%ignore of what may be empty, want a terminal that takes a character")
		}
	}
	l.recur()
	return &l.rules
}

func readLark(path, source string) *lark {
	l := &lark{rules: newRules(path, source), known: map[string]*rule{}}
	l.lark = true
	for l.space(true); l.at < len(source); l.space(true) {
		if l.source[l.at] == '%' {
			l.directive()
		} else {
			l.rule()
		}
		if l.space(false); l.at < len(source) && !strings.ContainsRune("\r\n", rune(source[l.at])) {
			l.fail("found %s, want a literal, a name, a group, | or the end of the line", l.found())
		}
	}
	return l
}

var (
	larkName     = regexp.MustCompile(`^(?:_?[a-z][_a-z0-9]*|_?[A-Z][_A-Z0-9]*)`)
	larkPriority = regexp.MustCompile(`^\.-?[0-9]+`)
)

// name reads the name of a rule or a terminal. It returns "" if there is none.
func (l *lark) name() string {
	name := larkName.FindString(l.source[l.at:])
	l.at += len(name)
	return name
}

// isTerminal reports whether a name is that of a terminal.
func isTerminal(name string) bool { return strings.ToUpper(name) == name }

// rule parses a rule or a terminal: its name, : and alternatives. It ignores ?, ! and priorities, which concern parse
// trees and the choice between them.
func (l *lark) rule() {
	for l.take("?") || l.take("!") {
	}
	at := l.at
	name := l.name()
	if name == "" {
		l.fail("found %s, want a rule, such as start: \"text\"", l.found())
	}
	switch {
	case l.take("{"):
		l.at = at
		l.fail("found the template %.40q, want a rule: templates are not supported", name)
	case l.take("["):
		l.at = at
		l.fail("found attributes of the rule %.40q, want none: they are not supported", name)
	}
	l.at += len(larkPriority.FindString(l.source[l.at:]))
	if l.space(false); !l.take(":") {
		l.fail("found %s after %.40q, want :", l.found(), name)
	}
	r := l.of(name)
	if r.at > 0 {
		l.at = at
		l.fail("found %.40q a second time, want another name", name)
	}
	r.at, r.leaf = at+1, isTerminal(name)
	r.ways = l.alternatives(r)
}

// alternatives parses sequences separated by |, and ignores the names of their parse trees. Line ends are permitted
// before and after |.
func (l *lark) alternatives(of *rule) (ways [][]symbol) {
	for {
		l.space(of.group)
		ways = append(ways, l.sequence(of))
		if l.space(false); l.take("->") {
			if l.space(false); l.name() == "" {
				l.fail("found %s, want a name after ->", l.found())
			}
		}
		end := l.at
		if l.space(true); !l.take("|") {
			l.at = end
			return ways
		}
		l.space(true)
	}
}

// sequence parses a sequence of symbols.
func (l *lark) sequence(of *rule) (all []symbol) {
	for ; ; l.space(of.group) {
		if l.at == len(l.source) || strings.HasPrefix(l.source[l.at:], "->") {
			return all
		}
		rest, at := l.source[l.at:], l.at
		one := symbol{least: 1, most: 1}
		switch x := rest[0]; {
		case x == '"':
			one = l.literal()
		case x == '/':
			one.rule = l.expression()
		case x == '(':
			one.rule = l.group(of, ")", l.alternatives)
		case x == '[':
			one.rule, one.least = l.group(of, "]", l.alternatives), 0
		case larkName.MatchString(rest):
			one.rule = l.calls(of)
		case strings.IndexByte("*+?~{", x) >= 0:
			if len(all) == 0 {
				l.fail("found %s, want something before it that is repeated", l.found())
			}
			l.repeat(of.name, &all[len(all)-1])
			continue
		case x == '<' || x == '%' || x == '@' || x == '&':
			l.fail("found %s, want literals, expressions, rules and terminals: others are not supported", l.found())
		default:
			return all
		}
		if l.symbols++; l.symbols > maxSymbols {
			l.at = at
			l.fail("found more than %d literals, expressions and calls of rules, want fewer", maxSymbols)
		}
		all = append(all, one)
	}
}

// calls parses a reference to a rule or a terminal in the rule or terminal of.
func (l *lark) calls(of *rule) *rule {
	at := l.at
	name := l.name()
	next, _ := utf8.DecodeRuneInString(l.source[l.at:])
	switch {
	case next == '{' && !larkCount.MatchString(l.source[l.at:]):
		l.at = at
		l.fail("found the template %.40q, want a rule: templates are not supported", name)
	case of.leaf && !isTerminal(name):
		l.at = at
		l.fail("found the rule %.40q in the terminal %.40q, want terminals only", name, of.name)
	}
	return l.called(name)
}

var larkCount = regexp.MustCompile(`^(?:~[ \t]*([0-9]+)(?:[ \t]*\.\.[ \t]*([0-9]+))?|` +
	`\{[ \t]*([0-9]*)[ \t]*(?:(,)[ \t]*([0-9]*)[ \t]*)?\})`)

// repeat parses the repetitions of a symbol: ?, *, +, ~2, ~2..3, or {2}, {2,}, {,3} and {2,3}.
func (l *lark) repeat(name string, it *symbol) {
	least, most := 0, unlimited
	x := l.source[l.at]
	count := func(text string, other int) int {
		if text == "" {
			return other
		}
		n, err := strconv.Atoi(text)
		if err != nil || n > maxRepeated {
			l.fail("found %s, want a number of repetitions of at most %d", l.found(), maxRepeated)
		}
		return n
	}
	switch x {
	case '+':
		least = 1
	case '?':
		most = 1
	case '~', '{':
		part := larkCount.FindStringSubmatch(l.source[l.at:])
		if part == nil || part[1]+part[3]+part[5] == "" {
			l.fail("found %s, want a number of repetitions, as in ~2, ~2..3, {2}, {2,} and {2,3}", l.found())
		}
		if least = count(part[1]+part[3], 0); x == '~' {
			most = count(part[2], least)
		} else if most = count(part[5], unlimited); part[4] == "" {
			most = least
		}
		if least > most {
			l.fail("found %s, want the smaller number first", l.found())
		}
		l.at += len(part[0]) - 1
	}
	l.at++
	l.repeated(name, it, least, most)
}

// literal parses a literal or a range of two characters.
func (l *lark) literal() symbol {
	it, at := symbol{least: 1, most: 1}, l.at
	it.text = l.quoted()
	if rest := strings.TrimLeft(l.source[l.at:], " \t"); strings.HasPrefix(rest, `..`) {
		l.at = len(l.source) - len(rest) + len("..")
		if l.space(false); !strings.HasPrefix(l.source[l.at:], `"`) {
			l.fail("found %s, want the last character of the range", l.found())
		}
		low, high := []rune(it.text), []rune(l.quoted())
		if len(low) != 1 || len(high) != 1 || low[0] > high[0] {
			l.at = at
			l.fail("found %s, want a range of two characters, the smaller one first", l.found())
		}
		return symbol{ranges: []rune{low[0], high[0]}, least: 1, most: 1}
	}
	if l.take("i") { // ignores case
		return symbol{rule: l.compiled(at, "(?i)"+regexp.QuoteMeta(it.text)), least: 1, most: 1}
	}
	return it
}

// quoted parses a text in quotation marks.
func (l *lark) quoted() string {
	var out strings.Builder
	at := l.at
	for l.at++; !l.take(`"`); {
		if l.at == len(l.source) || l.source[l.at] == '\n' {
			l.at = at
			l.fail("found %s, want a quotation mark at its end", l.found())
		}
		if rest := l.source[l.at:]; strings.HasPrefix(rest, `\f`) {
			out.WriteByte('\f')
			l.at += len(`\f`)
		} else {
			out.WriteRune(l.char(`"`))
		}
	}
	return out.String()
}

// expression parses a regular expression between slashes, and its flags.
func (l *lark) expression() *rule {
	at := l.at
	end := at + 1
	for ; end < len(l.source) && l.source[end] != '/' && l.source[end] != '\n'; end++ {
		if l.source[end] == '\\' {
			end++
		}
	}
	if end >= len(l.source) || l.source[end] == '\n' {
		l.fail("found %s, want / at the end of an expression", l.found())
	}
	text := strings.ReplaceAll(l.source[at+1:end], `\/`, "/")
	flags := ""
	for l.at = end + 1; l.at < len(l.source) && strings.IndexByte("imslux", l.source[l.at]) >= 0; l.at++ {
		switch x := l.source[l.at]; x {
		case 'l', 'x':
			l.fail("found the flag %c of an expression, want i, m, s or u", x)
		case 'u':
		default:
			flags += string(x)
		}
	}
	if flags != "" {
		text = "(?" + flags + ")" + text
	}
	return l.compiled(at, text)
}

// compiled returns the rule of an expression at a position.
func (l *lark) compiled(at int, text string) *rule {
	r := l.known[text]
	if r != nil {
		return r
	}
	it := symbol{least: 1, most: 1}
	if err := fault.Catch(func() { it.pattern = newPattern("", text, true) }); err != nil {
		fail(l.place(at+1), "%v", err)
	}
	it.pattern.path = l.place(at + 1)
	r = l.add(&rule{name: "/" + text + "/", at: at + 1, leaf: true, ways: [][]symbol{{it}}})
	l.known[text] = r
	return r
}

// directive parses a line that begins with %.
func (l *lark) directive() {
	at := l.at
	l.at++
	switch name := l.name(); name {
	case "ignore":
		of := l.add(&rule{name: "%ignore", at: at + 1, leaf: true})
		l.space(false)
		of.ways = l.alternatives(of)
		l.ignored = append(l.ignored, []symbol{{rule: of, least: 1, most: 1}})
	case "import":
		l.space(false)
		l.imports()
	default:
		l.at = at
		l.fail("found %s, want %%ignore or %%import: others are not supported", l.found())
	}
}

// terminals fails if a terminal is recursive.
func (l *lark) terminals() {
	done := map[*rule]bool{} // false while the rule is followed
	var follow func(r *rule)
	follow = func(r *rule) {
		if is, ok := done[r]; ok && !is {
			fail(l.place(r.at), "found recursion: the terminal %.40q has itself in it, want a rule", r.name)
		} else if ok || !r.leaf {
			return
		}
		done[r] = false
		for _, way := range r.ways {
			for _, it := range way {
				if it.rule != nil {
					follow(it.rule)
				}
			}
		}
		done[r] = true
	}
	for _, r := range l.all {
		follow(r)
	}
}

// ignore inserts the ignored terminals after each terminal of a rule, and before the start rule.
func (l *lark) ignore() {
	if len(l.ignored) == 0 {
		return
	}
	between := symbol{rule: l.add(&rule{name: "%ignore", at: 1, ways: l.ignored}), most: unlimited}
	tokens := map[string]*rule{}
	token := func(it symbol) *rule {
		it.least, it.most = 1, 1
		key := fmt.Sprintf("%p %q %v", it.rule, it.text, it.ranges)
		if tokens[key] == nil {
			tokens[key] = l.add(&rule{name: "%ignore", at: 1, ways: [][]symbol{{it, between}}})
		}
		return tokens[key]
	}
	for _, r := range slices.Clone(l.all) {
		for _, way := range r.ways {
			for i, it := range way {
				if !r.leaf && r != between.rule && (it.rule == nil || it.rule.leaf) {
					way[i] = symbol{rule: token(it), least: it.least, most: it.most}
				}
			}
		}
	}
	l.root = l.add(&rule{name: l.root.name, at: l.root.at, ways: [][]symbol{{between, once(l.root)}}})
}
