package constrain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// GBNF is the texts of a grammar in the format of llama.cpp, from its rule root on. Rules may call themselves, but not
// at their own beginning.
func GBNF(source string) (*Grammar, error) {
	return build(func(b *builder) int32 { return newGBNF("", source).write(b, rawText) })
}

// Rules is the texts of a grammar in the format of llama.cpp or that of Lark, as its rules are written: a ::= or a:.
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
	at      int        // one more than the place where it is defined, 0 where it is not
	called  int        // and than the place where it is called first
	ways    [][]symbol // alternatives, each a sequence
	entry   int32      // its first state, 0 where it has none
	most    int        // characters that it takes, 0 where they are not counted yet
	empty   bool       // it takes the empty text
	group   bool       // in parentheses, or repeated twice
	begun   bool       // its beginnings are being followed
	checked bool       // or have been
	leaf    bool       // a terminal of Lark
}

// symbol is a literal, one character of some ranges, a match of a pattern, or a rule, and how often it stands there.
type symbol struct {
	text        string
	ranges      []rune
	pattern     *pattern
	rule        *rule
	least, most int
}

// rules are those of a grammar, and where it is read.
type rules struct {
	path    string // of the keyword in a schema, "" elsewhere
	source  string
	at      int
	all     []*rule // in order, and groups among them
	named   map[string]*rule
	root    *rule
	lark    bool // the format is that of Lark: errors have columns, and comments may begin with //
	symbols int
	nested  int
	copies  int // of what is repeated
}

// gbnf reads a grammar in the format of llama.cpp.
type gbnf struct{ rules }

// The bounds of a grammar's text, besides maxSource.
const (
	maxSymbols  = 1 << 15 // literals, sets and calls
	maxGroups   = 200     // in each other
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

// start sets the rule where a text begins. It fails if that or another is not defined.
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

// fail ends the reading with an error about the place.
func (g *rules) fail(format string, args ...any) {
	fail(g.place(g.at+1), format, args...)
}

// place is a place, plus one, for an error.
func (g *rules) place(at int) string {
	before := g.source[:at-1]
	place := fmt.Sprint(g.path, ": line ", 1+strings.Count(before, "\n"))
	if g.lark {
		place += fmt.Sprint(", column ", 1+utf8.RuneCountInString(before[1+strings.LastIndexByte(before, '\n'):]))
	}
	return strings.TrimPrefix(place, ": ")
}

// found shows what stands at the place.
func (g *rules) found() string {
	rest, _, _ := strings.Cut(g.source[g.at:], "\n")
	if rest == "" {
		return "the end of the line"
	}
	return fmt.Sprintf("%.30q", rest)
}

// space passes white space and comments, with line ends or up to one.
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

// take passes a text if it stands at the place.
func (g *rules) take(text string) bool {
	ok := strings.HasPrefix(g.source[g.at:], text)
	if ok {
		g.at += len(text)
	}
	return ok
}

// word passes the letters, digits, - and _ at the place.
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

// rule reads a rule: its name, ::= and alternatives. One that is defined again replaces the first, as in llama.cpp.
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

// of is the rule of a name, which may be defined later.
func (g *rules) of(name string) *rule {
	r := g.named[name]
	if r == nil {
		r = g.add(&rule{name: name})
		g.named[name] = r
	}
	return r
}

// called is the rule of a name that ends at the place.
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

// alternatives reads sequences with | between. Those in parentheses may have line ends anywhere, others before and
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

// sequence reads what stands one after another.
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

// group reads a group in parentheses or brackets.
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

// repeat reads how often a symbol stands at its place.
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

// repeated makes a symbol stand at its place some times. One that does already becomes a group.
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

// count reads a number of repetitions.
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

// literal reads the rest of a literal.
func (g *gbnf) literal() string {
	var out strings.Builder
	for !g.take(`"`) {
		out.WriteRune(g.char(`"`))
	}
	return out.String()
}

// set reads the rest of a set, and returns its ranges in order, apart from each other.
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
	out := []rune{} // not nil: the set without characters
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

// complement is the characters that are not in some ranges.
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

// char reads a character of a literal or a set, which ends with a mark.
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
