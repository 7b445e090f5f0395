package constrain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// GBNF returns the grammar of a source in the format of llama.cpp, with the start rule root. Rules may be recursive,
// but not left-recursive.
func GBNF(source string) (*Grammar, error) {
	return build(func(b *builder) int32 { return newGBNF("", source).write(b, rawText) })
}

// Rules returns a part for a grammar in the format of llama.cpp or Lark. The form of its rules, a ::= or a:, determines
// which.
func Rules(source string) Part {
	return partFunc(func(b *builder, next int32) int32 {
		read := newGBNF
		if larkRule.MatchString(source) && !gbnfRule.MatchString(source) {
			read = newLark
		}
		return b.call(read("", source).write(b, rawText), next)
	})
}

var (
	gbnfRule = regexp.MustCompile(`(?m)^[ \t]*[\w-]+\s*::=`)
	larkRule = regexp.MustCompile(`(?m)^[ \t]*(?:%[a-z]|[?!]{0,2}\w+(?:\.-?\d+)?[ \t]*:)`)
)

// rule is a rule of a grammar, or a group in parentheses.
type rule struct {
	name    string
	at      int        // position of its definition plus one, 0 if it is not defined
	called  int        // position of its first call plus one
	ways    [][]symbol // alternatives, each a sequence of symbols
	entry   int32      // its first state, 0 for none
	most    int        // maximum number of characters, 0 if not computed yet
	empty   bool       // it accepts the empty text
	group   bool       // it is in parentheses, or was made for a symbol with two repetitions
	begun   bool       // the check for left recursion has started
	checked bool       // the check has ended
	leaf    bool       // it is a terminal of Lark
}

// symbol is a literal, one character of some ranges, a match of a pattern, or a rule, with the number of repetitions.
type symbol struct {
	text        string
	ranges      []rune
	pattern     *pattern
	rule        *rule
	least, most int
}

// rules holds the rules of a grammar and the state of its parser.
type rules struct {
	path    string // path of the keyword in a schema, otherwise ""
	source  string
	at      int
	all     []*rule // in order, including groups
	named   map[string]*rule
	root    *rule
	lark    bool // the format is Lark: errors have columns, and comments may begin with //
	symbols int
	nested  int
	copies  int // number of copies of repeated symbols
}

// gbnf parses a grammar in the format of llama.cpp.
type gbnf struct{ rules }

// The limits of a grammar's source, in addition to maxSource.
const (
	maxSymbols  = 1 << 15 // literals, sets and calls
	maxGroups   = 200     // nested groups
	maxRepeated = 1 << 14
)

func newRules(path, source string) rules {
	if len(source) > maxSource {
		fail(path, "found a grammar of %d bytes, want at most %d", len(source), maxSource)
	}
	if !utf8.ValidString(source) {
		fail(path, "found a grammar that is not UTF-8, want one that is")
	}
	return rules{path: path, source: source, named: map[string]*rule{}}
}

func newGBNF(path, source string) *rules {
	g := &gbnf{newRules(path, source)}
	for g.space(true); g.at < len(source); g.space(true) {
		g.rule()
	}
	g.start("root")
	g.empties()
	g.begin()
	return &g.rules
}

// start sets the start rule. It fails if this rule or another one is not defined.
func (g *rules) start(name string) {
	g.root = g.named[name]
	if g.root == nil || g.root.at == 0 {
		fail(g.path, "found %d rules, none of them %s, want the rule %s, where a text begins", len(g.named), name, name)
	}
	for _, r := range g.all {
		if r.at == 0 {
			fail(g.place(r.called), "found the rule %.40q, want one that is defined", r.name)
		}
	}
}

// fail ends the parsing with an error at the current position.
func (g *rules) fail(format string, args ...any) {
	fail(g.place(g.at+1), format, args...)
}

// place formats a position plus one for an error.
func (g *rules) place(at int) string {
	before := g.source[:at-1]
	place := fmt.Sprint(g.path, ": line ", 1+strings.Count(before, "\n"))
	if g.lark {
		place += fmt.Sprint(", column ", 1+utf8.RuneCountInString(before[1+strings.LastIndexByte(before, '\n'):]))
	}
	return strings.TrimPrefix(place, ": ")
}

// found quotes the rest of the line at the current position, for an error.
func (g *rules) found() string {
	rest, _, _ := strings.Cut(g.source[g.at:], "\n")
	if rest == "" {
		return "the end of the line"
	}
	return fmt.Sprintf("%.30q", rest)
}

// space skips white space and comments. It skips line ends only with lines.
func (g *rules) space(lines bool) {
	for ; g.at < len(g.source); g.at++ {
		switch x := g.source[g.at]; {
		case x == ' ' || x == '\t' || lines && (x == '\n' || x == '\r'):
		case x == '#' || g.lark && strings.HasPrefix(g.source[g.at:], "//"):
			if n := strings.IndexAny(g.source[g.at:], "\r\n"); n >= 0 {
				g.at += n - 1
			} else {
				g.at = len(g.source) - 1
			}
		default:
			return
		}
	}
}

// take skips text if the source continues with it, and reports whether it does.
func (g *rules) take(text string) bool {
	ok := strings.HasPrefix(g.source[g.at:], text)
	if ok {
		g.at += len(text)
	}
	return ok
}

// word reads the letters, digits, - and _ at the current position.
func (g *rules) word() string {
	from := g.at
	for g.at < len(g.source) && isWord(g.source[g.at]) {
		g.at++
	}
	return g.source[from:g.at]
}

func isWord(x byte) bool {
	return x >= 'a' && x <= 'z' || x >= 'A' && x <= 'Z' || x >= '0' && x <= '9' || x == '-' || x == '_'
}

// rule parses a rule: its name, ::= and alternatives. A second definition replaces the first, as in llama.cpp.
func (g *gbnf) rule() {
	at, name := g.at+1, g.word()
	if name == "" {
		g.fail("found %s, want a rule, such as root ::= \"text\"", g.found())
	}
	if g.space(false); !g.take("::=") {
		g.fail("found %s after %.40q, want ::=", g.found(), name)
	}
	r := g.of(name)
	r.at = at
	g.space(true)
	r.ways = g.alternatives(r)
	if g.at < len(g.source) && !strings.ContainsRune("\r\n", rune(g.source[g.at])) {
		g.fail("found %s, want a literal, a set, a rule, a group or the end of the line", g.found())
	}
}

// of returns the rule of a name, which may be defined later.
func (g *rules) of(name string) *rule {
	r := g.named[name]
	if r == nil {
		r = g.add(&rule{name: name})
		g.named[name] = r
	}
	return r
}

// called returns the rule of a name that ends at the current position.
func (g *rules) called(name string) *rule {
	r := g.of(name)
	if r.called == 0 {
		r.called = g.at - len(name) + 1
	}
	return r
}

func (g *rules) add(r *rule) *rule {
	if len(g.all) >= maxRules {
		g.fail("found more than %d rules and groups, want fewer", maxRules)
	}
	g.all = append(g.all, r)
	return r
}

// alternatives parses sequences separated by |. Line ends are permitted anywhere in parentheses, otherwise before and
// after |.
func (g *gbnf) alternatives(of *rule) (ways [][]symbol) {
	for {
		ways = append(ways, g.sequence(of))
		end := g.at
		if g.space(true); !g.take("|") {
			g.at = end
			return ways
		}
		g.space(true)
	}
}

// sequence parses a sequence of symbols.
func (g *gbnf) sequence(of *rule) (all []symbol) {
	for ; ; g.space(of.group) {
		if g.at == len(g.source) {
			return all
		}
		one := symbol{least: 1, most: 1}
		switch x := g.source[g.at]; {
		case x == '"':
			g.at++
			one.text = g.literal()
		case x == '[':
			g.at++
			one.ranges = g.set()
		case x == '.':
			g.at++
			one.ranges = anyRune
		case x == '(':
			one.rule = g.group(of, ")", g.alternatives)
		case isWord(x):
			one.rule = g.called(g.word())
		case x == '<' || x == '!':
			g.fail("found %s, want a literal: the grammar is about texts, not about tokens", g.found())
		case strings.IndexByte("*+?{", x) >= 0:
			if len(all) == 0 {
				g.fail("found %s, want something before it that is repeated", g.found())
			}
			g.repeat(of.name, &all[len(all)-1])
			continue
		default:
			return all
		}
		if g.symbols++; g.symbols > maxSymbols {
			g.fail("found more than %d literals, sets and calls of rules, want fewer", maxSymbols)
		}
		all = append(all, one)
	}
}

// group parses a group in parentheses or brackets.
func (g *rules) group(of *rule, end string, alternatives func(of *rule) [][]symbol) *rule {
	if g.nested++; g.nested > maxGroups {
		g.fail("found more than %d groups in each other, want fewer", maxGroups)
	}
	r := g.add(&rule{name: of.name, at: g.at + 1, group: true, leaf: of.leaf})
	g.at++
	g.space(true)
	r.ways = alternatives(r)
	if g.space(true); !g.take(end) {
		g.fail("found %s, want %s after the group of %s", g.found(), end, g.place(r.at))
	}
	g.nested--
	return r
}

// repeat parses the repetitions of a symbol.
func (g *gbnf) repeat(name string, it *symbol) {
	least, most := 0, unlimited
	x := g.source[g.at]
	g.at++
	switch x {
	case '+':
		least = 1
	case '?':
		most = 1
	case '{':
		g.space(false)
		least, most = g.count(), unlimited
		if g.space(false); !g.take(",") {
			most = least
		} else if g.space(false); !strings.HasPrefix(g.source[g.at:], "}") {
			most = g.count()
		}
		if g.space(false); !g.take("}") {
			g.fail("found %s, want }, as in {2}, {2,} and {2,3}", g.found())
		}
		if least > most {
			g.fail("found {%d,%d}, want the smaller number first", least, most)
		}
	}
	g.repeated(name, it, least, most)
}

// repeated sets the repetitions of a symbol. A symbol that already has repetitions becomes a group.
func (g *rules) repeated(name string, it *symbol, least, most int) {
	if it.least != 1 || it.most != 1 {
		*it = symbol{rule: g.add(&rule{name: name, at: g.at + 1, group: true, ways: [][]symbol{{*it}}})}
	}
	it.least, it.most = least, most
	if most == unlimited {
		most = least
	}
	if g.copies += most; g.copies > maxStates {
		g.fail("found repetitions of more than %d copies in all, want fewer", maxStates)
	}
}

// count parses a number of repetitions.
func (g *rules) count() int {
	from := g.at
	for g.at < len(g.source) && g.source[g.at] >= '0' && g.source[g.at] <= '9' {
		g.at++
	}
	digits := g.source[from:g.at]
	n, err := strconv.Atoi(digits)
	if digits == "" || err != nil || n > maxRepeated {
		g.at = from
		g.fail("found %s, want a number of repetitions of at most %d", g.found(), maxRepeated)
	}
	return n
}

// literal parses the rest of a literal.
func (g *gbnf) literal() string {
	var out strings.Builder
	for !g.take(`"`) {
		out.WriteRune(g.char(`"`))
	}
	return out.String()
}

// set parses the rest of a set and returns its ranges, sorted and disjoint.
func (g *gbnf) set() []rune {
	not := g.take("^")
	var all [][2]rune
	for !g.take("]") {
		low := g.char("]")
		high := low
		if rest := g.source[g.at:]; strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "-]") {
			g.at++
			high = g.char("]")
		}
		if low > high {
			g.fail("found the range from %q to %q, want the smaller character first", low, high)
		}
		all = append(all, [2]rune{low, high})
	}
	slices.SortFunc(all, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	out := []rune{} // not nil, which would not be a set
	for _, r := range all {
		if n := len(out); n > 0 && r[0] <= out[n-1]+1 {
			out[n-1] = max(out[n-1], r[1])
		} else {
			out = append(out, r[0], r[1])
		}
	}
	if not {
		return complement(out)
	}
	return out
}

// complement returns the ranges of the characters that are not in ranges.
func complement(ranges []rune) []rune {
	out, from := []rune{}, rune(0)
	for i := 0; i < len(ranges); i += 2 {
		if from < ranges[i] {
			out = append(out, from, ranges[i]-1)
		}
		from = ranges[i+1] + 1
	}
	if from <= utf8.MaxRune {
		out = append(out, from, utf8.MaxRune)
	}
	return out
}

// char parses a character of a literal or a set that ends with mark.
func (g *rules) char(mark string) rune {
	rest := g.source[g.at:]
	if rest == "" {
		g.fail("found the end of the grammar, want %s", mark)
	}
	if rest[0] != '\\' {
		r, n := utf8.DecodeRuneInString(rest)
		g.at += n
		return r
	}
	const plain, means = `trn\"[]-`, "\t\r\n\\\"[]-"
	rest = rest[1:]
	for _, form := range []struct {
		letter string
		digits int
	}{{"x", 2}, {"u", 4}, {"U", 8}} {
		if digits, ok := strings.CutPrefix(rest, form.letter); ok {
			n, err := strconv.ParseUint(digits[:min(form.digits, len(digits))], 16, 32)
			if err != nil || len(digits) < form.digits || n > utf8.MaxRune || n >= 0xD800 && n < 0xE000 {
				g.fail("found %s, want \\%s and the %d hexadecimal digits of a character", g.found(), form.letter,
					form.digits)
			}
			g.at += 2 + form.digits
			return rune(n)
		}
	}
	if i := strings.IndexAny(plain, rest[:min(1, len(rest))]); i >= 0 {
		g.at += 2
		return rune(means[i])
	}
	g.fail("found %s, want one of \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\x \\u \\U", g.found())
	return 0
}
