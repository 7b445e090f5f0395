// Package regex compiles the regular expressions by which tokenizers split text into words. The result is a table (a
// deterministic automaton), which takes one look-up per character. It supports the parts of Oniguruma's and Rust's
// syntax that published patterns use: classes, repeats, alternatives and a lookahead of one character.
package regex

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// This file parses the regular expressions by which tokenizers split text into words. They are written for Oniguruma:
// \s, \d and \w are Unicode's, and a lookahead such as (?!\S) occurs, so package regexp cannot parse them. The parser
// supports what published tokenizers use: literals, classes, properties, groups, alternatives, greedy repetition, (?i),
// and lookahead at one character. Anything else is an error that names it.

// regexOp is the operation of a node of a parsed pattern.
type regexOp int

const (
	OpSet    regexOp = iota // one symbol of set
	opLook                  // the next symbol is in Set (if negated, is not, or there is none); consumes nothing
	opCat                   // Subs one after another
	OpAlt                   // the first of Subs that matches
	OpRepeat                // Subs[0] from Min to Max times, as often as possible
)

// Node is a node of a parsed pattern.
type Node struct {
	Op       regexOp
	Set      Set
	negated  bool // opLook
	Min, Max int  // OpRepeat; a negative Max means unbounded
	Subs     []*Node
}

// Limits of patterns, far above those of published tokenizers, so that a hostile file costs little.
const (
	maxPattern = 4096 // bytes
	maxDepth   = 32   // nested groups
	maxRepeat  = 256  // of {m,n}
)

// regexParser parses one pattern by recursive descent.
type regexParser struct {
	src   string
	pos   int
	depth int
	fold  bool // (?i) is active
	work  *Work
}

// Work is the remaining budget for the patterns of a tokenizer: ranges of characters inspected, and instructions
// followed. Without a limit, a few KB of pattern could need millions of times as much, and a hostile file would take
// minutes to read.
type Work int

// MaxWork is about 25 times the work for the costliest published tokenizer. It takes a fraction of a second.
const MaxWork Work = 4_000_000

// spend subtracts n units from the budget. It raises an error if the budget is exhausted.
func (w *Work) spend(n int) {
	if *w -= Work(n); *w < 0 {
		fault.Raisef("the patterns take too much work to compile")
	}
}

// parseRegex parses a pattern.
func parseRegex(pattern string, work *Work) (node *Node, err error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("pattern of %d bytes, want at most %d", len(pattern), maxPattern)
	}
	p := &regexParser{src: pattern, work: work}
	err = fault.Catch(func() {
		if node = p.alternatives(); p.pos < len(p.src) {
			fault.Raisef("unmatched )")
		}
		if node.matchesNothing() {
			fault.Raisef("it matches the empty string")
		}
	})
	if err != nil {
		return nil, fmt.Errorf("pattern %.60q, near byte %d: %w", pattern, p.pos, err)
	}
	return node, nil
}

// matchesNothing reports whether the node can match without consuming a symbol.
func (n *Node) matchesNothing() bool {
	switch n.Op {
	case OpSet:
		return false
	case opLook:
		return true
	case OpRepeat:
		return n.Min == 0 || n.Subs[0].matchesNothing()
	case OpAlt:
		return slices.ContainsFunc(n.Subs, (*Node).matchesNothing)
	default: // opCat
		return !slices.ContainsFunc(n.Subs, func(sub *Node) bool { return !sub.matchesNothing() })
	}
}

// take skips prefix if the rest of the pattern starts with it.
func (p *regexParser) take(prefix string) bool {
	ok := strings.HasPrefix(p.src[p.pos:], prefix)
	if ok {
		p.pos += len(prefix)
	}
	return ok
}

// char consumes one character.
func (p *regexParser) char() rune {
	if p.pos == len(p.src) {
		fault.Raisef("it ends too early")
	}
	r, size := utf8.DecodeRuneInString(p.src[p.pos:])
	if r == utf8.RuneError && size == 1 {
		fault.Raisef("it is not UTF-8")
	}
	p.pos += size
	return r
}

// alternatives parses a|b|c up to a closing parenthesis or the end.
func (p *regexParser) alternatives() *Node {
	fold := p.fold
	defer func() { p.fold = fold }() // (?i) ends with its group
	alt := &Node{Op: OpAlt}
	for {
		cat := &Node{Op: opCat}
		for p.pos < len(p.src) && p.src[p.pos] != '|' && p.src[p.pos] != ')' {
			// Elsewhere than at the start of a group, the scope of (?i) depends on the dialect.
			if len(alt.Subs) == 0 && len(cat.Subs) == 0 && p.take("(?i)") {
				p.fold = true
				continue
			}
			cat.Subs = append(cat.Subs, p.repeated())
		}
		alt.Subs = append(alt.Subs, cat)
		if !p.take("|") {
			return alt
		}
	}
}

// repeated parses an item and the quantifier after it.
func (p *regexParser) repeated() *Node {
	item := p.item()
	lo, hi, ok := p.quantifier()
	if !ok {
		return item
	}
	if item.matchesNothing() {
		fault.Raisef("a quantifier on what may match nothing is not supported")
	}
	if p.pos < len(p.src) {
		switch p.src[p.pos] {
		case '?':
			fault.Raisef("a lazy quantifier is not supported")
		case '+', '*', '{':
			fault.Raisef("a possessive or repeated quantifier is not supported")
		}
	}
	return &Node{Op: OpRepeat, Min: lo, Max: hi, Subs: []*Node{item}}
}

// quantifier parses ?, *, +, {n}, {n,} or {m,n}.
func (p *regexParser) quantifier() (lo, hi int, ok bool) {
	switch {
	case p.take("?"):
		return 0, 1, true
	case p.take("*"):
		return 0, -1, true
	case p.take("+"):
		return 1, -1, true
	case !p.take("{"):
		return 0, 0, false
	}
	inside, _, found := strings.Cut(p.src[p.pos:], "}")
	first, second, comma := strings.Cut(inside, ",")
	lo, err := strconv.Atoi(first)
	switch {
	case !comma:
		hi = lo
	case second == "":
		hi = -1
	case err == nil:
		hi, err = strconv.Atoi(second)
	}
	if !found || err != nil || lo < 0 || lo > maxRepeat || hi > maxRepeat || hi >= 0 && hi < lo || hi == 0 {
		fault.Raisef("quantifier {%.20s}, want {n}, {n,} or {m,n} with numbers up to %d", inside, maxRepeat)
	}
	p.pos += len(inside) + 1
	return lo, hi, true
}

// item parses a group, a class, an escape or a literal character.
func (p *regexParser) item() *Node {
	switch {
	case p.take("(?="):
		return p.lookahead(false)
	case p.take("(?!"):
		return p.lookahead(true)
	case p.take("(?:"), p.take("(?i:"):
		fold := p.fold
		p.fold = fold || p.src[p.pos-2] == 'i'
		defer func() { p.fold = fold }()
		return p.group()
	case strings.HasPrefix(p.src[p.pos:], "(?"):
		fault.Raisef("the group %.5s… is not supported", p.src[p.pos:])
	case p.take("("):
		return p.group()
	case p.take("["):
		set := p.class()
		p.work.spend(len(set))
		return &Node{Op: OpSet, Set: set}
	case p.take("."):
		return &Node{Op: OpSet, Set: Set{{'\n', '\n'}}.Negate()}
	case p.take(`\`):
		return &Node{Op: OpSet, Set: p.folded(p.escape())}
	}
	c := p.char()
	if strings.ContainsRune("^$*+?{", c) {
		fault.Raisef("%.60q here is not supported", c)
	}
	return &Node{Op: OpSet, Set: p.folded(Set{{c, c}})}
}

// folded returns set.fold if (?i) is active, else the set itself.
func (p *regexParser) folded(set Set) Set {
	if !p.fold {
		return set
	}
	p.work.spend(set.foldWork())
	return set.fold()
}

// group parses the rest of a group.
func (p *regexParser) group() *Node {
	if p.depth++; p.depth > maxDepth {
		fault.Raisef("groups nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	node := p.alternatives()
	if !p.take(")") {
		fault.Raisef("missing )")
	}
	return node
}

// lookahead parses the rest of (?=x) or (?!x), where x is a single symbol.
func (p *regexParser) lookahead(negated bool) *Node {
	node := p.group()
	for (node.Op == OpAlt || node.Op == opCat) && len(node.Subs) == 1 {
		node = node.Subs[0]
	}
	if node.Op != OpSet {
		fault.Raisef("a lookahead at more than one character is not supported")
	}
	return &Node{Op: opLook, negated: negated, Set: node.Set}
}
