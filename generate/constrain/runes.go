package constrain

import (
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// spelling is the way in which the characters of a text are written: unchanged, or as in a JSON string.
type spelling bool

const (
	rawText  spelling = false
	jsonText spelling = true
)

// unlimited stands for a length without limit.
const unlimited = math.MaxInt

// pattern is a compiled regular expression. Its first program is for the whole text. The others are for its lookaheads,
// which RE2 lacks.
type pattern struct {
	path   string
	source string
	progs  []*syntax.Prog
	looks  []map[uint32]look // by program and argument of the instruction
	most   int               // maximum number of characters of a match
	// a pattern that matches less, used if bounded lengths would need too many states; nil for none
	narrow *pattern
}

// look is a lookahead: the rest of the text must begin with a match of a program or, with never, must not.
type look struct {
	prog  int
	never bool
}

// maxPattern is the maximum length of an expression in bytes, and maxProgram the maximum number of its instructions.
const (
	maxPattern = 4 << 10
	maxProgram = 1 << 13
)

// newPattern compiles the regular expression at a path. With whole it must match the whole text, otherwise a part of
// it.
func newPattern(path, source string, whole bool) *pattern {
	if len(source) > maxPattern {
		fail(path, "found a regular expression of %d bytes, want at most %d", len(source), maxPattern)
	}
	p := &pattern{path: path, source: source}
	p.compile(source, whole, false)
	return p
}

// compile adds the programs of an expression and its lookaheads.
func (p *pattern) compile(source string, whole, never bool) {
	at := len(p.progs)
	p.progs, p.looks = append(p.progs, nil), append(p.looks, map[uint32]look{})
	byName := map[string]look{}
	plain := p.lookaheads(source, func(body string, not bool) string {
		if never {
			fail(p.path, "found the regular expression %.60q with a lookahead in one that must not match, want none "+
				"there", p.source)
		}
		name := fmt.Sprintf("look%d", len(p.progs))
		byName[name] = look{len(p.progs), not}
		p.compile(body, true, not)
		return "(?P<" + name + ">)"
	})
	parsed, err := syntax.Parse(inRE2(plain, never, p.path != ""), syntax.Perl)
	if err != nil {
		fail(p.path, "found the regular expression %.60q (%v), want one of Go's syntax, which is RE2's, and lookaheads",
			p.source, err)
	}
	if programSize(parsed) > maxProgram {
		fail(p.path, "found the regular expression %.60q, want one that repeats less", p.source)
	}
	for i, name := range parsed.CapNames() {
		if l, ok := byName[name]; ok {
			p.looks[at][uint32(2*i)] = l
		}
	}
	if !whole {
		any := &syntax.Regexp{Op: syntax.OpStar, Sub: []*syntax.Regexp{{Op: syntax.OpAnyChar}}}
		parsed = &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{any, parsed, any}}
	}
	if at == 0 {
		p.most = longest(parsed)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		fail(p.path, "found the regular expression %.60q (%v), want another", p.source, err)
	}
	for _, i := range prog.Inst {
		if i.Op == syntax.InstEmptyWidth && syntax.EmptyOp(i.Arg)&(syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0 {
			fail(p.path, "found the regular expression %.60q with (?m), want one without", p.source)
		}
	}
	p.progs[at] = prog
}

// lookaheads returns an expression with each lookahead replaced by the result of replace.
func (p *pattern) lookaheads(source string, replace func(body string, not bool) string) string {
	var out strings.Builder
	for i := 0; i < len(source); {
		n := unitOf(source[i:])
		if rest := source[i:]; strings.HasPrefix(rest, "(?=") || strings.HasPrefix(rest, "(?!") {
			const mark = len("(?=")
			n = mark
			for depth := 1; depth > 0; {
				if i+n >= len(source) {
					fail(p.path, "found the regular expression %.60q, want ) after a lookahead", p.source)
				}
				switch source[i+n] {
				case '(':
					depth++
				case ')':
					depth--
				}
				n += unitOf(source[i+n:])
			}
			out.WriteString(replace(rest[mark:n-1], rest[2] == '!'))
		} else {
			out.WriteString(rest[:n])
		}
		i += n
	}
	return out.String()
}

// unitOf returns the length of the first unit of an expression: an escaped character, a set, or a byte.
func unitOf(source string) int {
	switch source[0] {
	case '\\':
		return min(2, len(source))
	case '[':
		i := 1
		if strings.HasPrefix(source[i:], "^") {
			i++
		}
		for first := true; i < len(source); first = false {
			if source[i] == ']' && !first {
				return i + 1
			}
			if strings.HasPrefix(source[i:], "[:") { // such as [:alpha:]
				if end := strings.Index(source[i:], ":]"); end > 0 {
					i += end + 1
				}
			} else if source[i] == '\\' {
				i++
			}
			i++
		}
		return len(source)
	}
	return 1
}

// longest returns the maximum number of characters of a match.
func longest(re *syntax.Regexp) int {
	most, sum := 0, 0
	for _, sub := range re.Sub {
		n := longest(sub)
		most = max(most, n)
		if sum += min(n, unlimited-sum); n == unlimited {
			sum = unlimited
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpStar, syntax.OpPlus:
		if most > 0 {
			return unlimited
		}
	case syntax.OpRepeat:
		if most > 0 && (re.Max < 0 || most > unlimited/max(1, re.Max)) {
			return unlimited
		}
		return most * max(0, re.Max)
	case syntax.OpConcat, syntax.OpCapture, syntax.OpQuest:
		return sum
	}
	return most
}

// programSize estimates the number of instructions of an expression. Repetitions are expanded.
func programSize(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+programSize(sub), 2*maxProgram)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*(1+max(re.Min, re.Max)), 2*maxProgram)
	}
	return n
}

// anyRune holds the range of all characters.
var anyRune = []rune{0, unicode.MaxRune}

// runesOf returns the ranges of the characters that an instruction accepts.
func runesOf(i *syntax.Inst, spelled spelling) []rune {
	switch {
	case i.Op == syntax.InstRuneAny:
		return anyRune
	case i.Op == syntax.InstRuneAnyNotNL && spelled == jsonText: // as in JavaScript, which has four line ends
		return []rune{0, '\n' - 1, '\n' + 1, '\r' - 1, '\r' + 1, 0x2027, 0x202A, unicode.MaxRune}
	case i.Op == syntax.InstRuneAnyNotNL:
		return []rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune}
	case len(i.Rune) != 1:
		return i.Rune
	}
	all := []rune{i.Rune[0]}
	if syntax.Flags(i.Arg)&syntax.FoldCase != 0 {
		for r := unicode.SimpleFold(all[0]); r != i.Rune[0]; r = unicode.SimpleFold(r) {
			all = append(all, r)
		}
	}
	slices.Sort(all)
	var out []rune
	for _, r := range all {
		out = append(out, r, r)
	}
	return out
}
