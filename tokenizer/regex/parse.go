// Package regex compiles the regular expressions by which tokenizers cut text into words to tables (deterministic
// automata over bytes), which take one look for each byte. It has what published patterns use of Oniguruma's and Rust's
// syntax: classes, repeats, alternatives and a lookahead of one character.
package regex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file reads the regular expressions by which tokenizers cut text into words. They are written for Oniguruma: \s,
// \d, \w are Unicode's, and a lookahead such as (?!\S) occurs, so package regexp cannot read them. The parser supports
// what published tokenizers use: literals, classes, properties, groups, alternatives, greedy repetition, (?i), and
// lookahead at one character. Anything else is an error that names it.

// regexOp is what a node of a parsed pattern does.
type regexOp int

const (
	OpSet    regexOp = iota // one symbol of set
	opLook                  // the next symbol is in set (or, negated, is not, or there is none); takes nothing
	opCat                   // subs one after another
	OpAlt                   // the first of subs that matches
	OpRepeat                // subs[0] from min to max times, as often as possible
)

// Node is a node of a parsed pattern.
type Node struct {
	Op       regexOp
	Set      Set
	negated  bool // opLook
	Min, Max int  // opRepeat; max < 0 is without bound
	Subs     []*Node
}

// Bounds on patterns, far above what published tokenizers have, so that a hostile file costs little.
const (
	maxPattern = 4096 // bytes
	maxDepth   = 32   // nested groups
	maxRepeat  = 256  // of {m,n}
)

// regexParser reads one pattern by recursive descent.
type regexParser struct {
	src   string
	pos   int
	depth int
	fold  bool // (?i) holds here
	work  *Work
}

// Work is the remaining budget for the patterns of a tokenizer: ranges of characters inspected, and instructions
// followed. Without a bound a few KB of pattern could need millions of times that, and reading a hostile file would
// take minutes.
type Work int

// MaxWork is about 25 times the work of the costliest published tokenizer, and a fraction of a second.
const MaxWork Work = 4_000_000

// spend counts n units of work.
func (w *Work) spend(n int) error {
	if *w -= Work(n); *w < 0 {
		return errors.New("the patterns take too much work to compile")
	}
	return nil
}

// parseRegex reads a pattern.
func parseRegex(pattern string, work *Work) (*Node, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("pattern of %d bytes, want at most %d", len(pattern), maxPattern)
	}
	p := &regexParser{src: pattern, work: work}
	node, err := p.alternatives()
	if err == nil && p.pos < len(p.src) {
		err = errors.New("unmatched )")
	}
	if err == nil && node.matchesNothing() {
		err = errors.New("it matches the empty string")
	}
	if err != nil {
		return nil, fmt.Errorf("pattern %.60q, near byte %d: %w", pattern, p.pos, err)
	}
	return node, nil
}

// matchesNothing reports whether the node can match without taking a symbol.
func (n *Node) matchesNothing() bool {
	switch n.Op {
	case OpSet:
		return false
	case opLook:
		return true
	case OpRepeat:
		return n.Min == 0 || n.Subs[0].matchesNothing()
	case OpAlt:
		for _, sub := range n.Subs {
			if sub.matchesNothing() {
				return true
			}
		}
		return false
	default: // opCat
		for _, sub := range n.Subs {
			if !sub.matchesNothing() {
				return false
			}
		}
		return true
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

// char takes one character.
func (p *regexParser) char() (rune, error) {
	if p.pos == len(p.src) {
		return 0, errors.New("it ends too early")
	}
	r, size := utf8.DecodeRuneInString(p.src[p.pos:])
	if r == utf8.RuneError && size == 1 {
		return 0, errors.New("it is not UTF-8")
	}
	p.pos += size
	return r, nil
}

// alternatives reads a|b|c up to a closing parenthesis or the end.
func (p *regexParser) alternatives() (*Node, error) {
	fold := p.fold
	defer func() { p.fold = fold }() // (?i) ends with its group
	alt := &Node{Op: OpAlt}
	for {
		cat := &Node{Op: opCat}
		for p.pos < len(p.src) && p.src[p.pos] != '|' && p.src[p.pos] != ')' {
			// Anywhere but at the start of a group the scope of (?i) depends on the dialect.
			if len(alt.Subs) == 0 && len(cat.Subs) == 0 && p.take("(?i)") {
				p.fold = true
				continue
			}
			item, err := p.repeated()
			if err != nil {
				return nil, err
			}
			cat.Subs = append(cat.Subs, item)
		}
		alt.Subs = append(alt.Subs, cat)
		if !p.take("|") {
			return alt, nil
		}
	}
}

// repeated reads an item and the quantifier after it.
func (p *regexParser) repeated() (*Node, error) {
	item, err := p.item()
	if err != nil {
		return nil, err
	}
	lo, hi, ok, err := p.quantifier()
	if err != nil || !ok {
		return item, err
	}
	if item.matchesNothing() {
		return nil, errors.New("a quantifier on what may match nothing is not supported")
	}
	if p.pos < len(p.src) {
		switch p.src[p.pos] {
		case '?':
			return nil, errors.New("a lazy quantifier is not supported")
		case '+', '*', '{':
			return nil, errors.New("a possessive or repeated quantifier is not supported")
		}
	}
	return &Node{Op: OpRepeat, Min: lo, Max: hi, Subs: []*Node{item}}, nil
}

// quantifier reads ?, *, +, {n}, {n,} or {m,n}.
func (p *regexParser) quantifier() (lo, hi int, ok bool, err error) {
	switch {
	case p.take("?"):
		return 0, 1, true, nil
	case p.take("*"):
		return 0, -1, true, nil
	case p.take("+"):
		return 1, -1, true, nil
	case !p.take("{"):
		return 0, 0, false, nil
	}
	inside, _, found := strings.Cut(p.src[p.pos:], "}")
	first, second, comma := strings.Cut(inside, ",")
	lo, err = strconv.Atoi(first)
	switch {
	case !comma:
		hi = lo
	case second == "":
		hi = -1
	case err == nil:
		hi, err = strconv.Atoi(second)
	}
	if !found || err != nil || lo < 0 || lo > maxRepeat || hi > maxRepeat || hi >= 0 && hi < lo || hi == 0 {
		return 0, 0, false,
			fmt.Errorf("quantifier {%.20s}, want {n}, {n,} or {m,n} with numbers up to %d", inside, maxRepeat)
	}
	p.pos += len(inside) + 1
	return lo, hi, true, nil
}

// item reads a group, a class, an escape or a literal character.
func (p *regexParser) item() (*Node, error) {
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
		return nil, fmt.Errorf("the group %.5s… is not supported", p.src[p.pos:])
	case p.take("("):
		return p.group()
	case p.take("["):
		set, err := p.class()
		if err == nil {
			err = p.work.spend(len(set))
		}
		return &Node{Op: OpSet, Set: set}, err
	case p.take("."):
		return &Node{Op: OpSet, Set: Set{{'\n', '\n'}}.Negate()}, nil
	case p.take(`\`):
		set, err := p.escape()
		if err == nil && p.fold {
			set, err = p.folded(set)
		}
		return &Node{Op: OpSet, Set: set}, err
	}
	c, err := p.char()
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune("^$*+?{", c) {
		return nil, fmt.Errorf("%.60q here is not supported", c)
	}
	set := Set{{c, c}}
	if p.fold {
		set, err = p.folded(set)
	}
	return &Node{Op: OpSet, Set: set}, err
}

// folded is set.fold.
func (p *regexParser) folded(set Set) (Set, error) {
	if err := p.work.spend(set.foldWork()); err != nil {
		return nil, err
	}
	return set.fold(), nil
}

// group reads the rest of a group.
func (p *regexParser) group() (*Node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("groups nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	node, err := p.alternatives()
	if err == nil && !p.take(")") {
		err = errors.New("missing )")
	}
	return node, err
}

// lookahead reads the rest of (?=x) or (?!x), where x is a single symbol.
func (p *regexParser) lookahead(negated bool) (*Node, error) {
	node, err := p.group()
	if err != nil {
		return nil, err
	}
	for (node.Op == OpAlt || node.Op == opCat) && len(node.Subs) == 1 {
		node = node.Subs[0]
	}
	if node.Op != OpSet {
		return nil, errors.New("a lookahead at more than one character is not supported")
	}
	return &Node{Op: opLook, negated: negated, Set: node.Set}, nil
}
