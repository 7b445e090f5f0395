package constrain

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// spelling is how the characters of a text are written: as they are, or as JSON writes them in a string.
type spelling bool

const (
	rawText  spelling = false
	jsonText spelling = true
)

// unlimited is a length without bound.
const unlimited = math.MaxInt

// pattern is a regular expression, as a program for sets of characters.
type pattern struct {
	path   string
	source string
	tester string // the expression for package regexp
	prog   *syntax.Prog
}

// maxPattern bounds the bytes of an expression, maxProgram the instructions that it becomes.
const (
	maxPattern = 4 << 10
	maxProgram = 1 << 13
)

// newPattern compiles a regular expression that stands at a path. It matches a whole text, or else a part of one.
func newPattern(path, source string, whole bool) *pattern {
	if len(source) > maxPattern {
		fail(path, "found a regular expression of %d bytes, want at most %d", len(source), maxPattern)
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		fail(path, "found the regular expression %.60q (%v), want one of Go's syntax, which is RE2's", source, err)
	}
	tester := parsed.String() // not source, which may have a \Q without an end
	if whole {
		tester = `^(?:` + tester + `)$`
	}
	if programSize(parsed) > maxProgram {
		fail(path, "found the regular expression %.60q, want one that repeats less", source)
	}
	if !whole {
		any := &syntax.Regexp{Op: syntax.OpStar, Sub: []*syntax.Regexp{{Op: syntax.OpAnyChar}}}
		parsed = &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{any, parsed, any}}
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		fail(path, "found the regular expression %.60q (%v), want another", source, err)
	}
	for _, i := range prog.Inst {
		if i.Op == syntax.InstEmptyWidth && syntax.EmptyOp(i.Arg)&^(syntax.EmptyBeginText|syntax.EmptyEndText) != 0 {
			fail(path, "found the regular expression %.60q with \\b, \\B or (?m), want one without", source)
		}
	}
	return &pattern{path: path, source: source, tester: tester, prog: prog}
}

// programSize is about how many instructions an expression becomes: repetitions are written out.
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

// place is where a match is: an instruction, whether a character stands before it and whether one may follow, and how
// many characters there were.
type place struct {
	pc    uint32
	begun bool
	ended bool
	count int
}

// matching writes the states of a pattern in texts of some lengths.
type matching struct {
	b           *builder
	p           *pattern
	spelled     spelling
	least, most int
	next        int32
	places      map[place]int32
	work        []place
}

// pattern takes the texts that a pattern matches, of least to most characters.
func (b *builder) pattern(p *pattern, spelled spelling, least, most int, next int32) int32 {
	b.path = p.path
	m := &matching{
		b: b, p: p, spelled: spelled, least: least, most: most, next: next, places: map[place]int32{},
	}
	start := m.at(place{pc: uint32(p.prog.Start)})
	for len(m.work) > 0 {
		at := m.work[len(m.work)-1]
		m.work = m.work[:len(m.work)-1]
		b.set(m.places[at], m.write(at))
	}
	return start
}

// at is the state of a place.
func (m *matching) at(p place) int32 {
	if m.most == unlimited {
		p.count = min(p.count, m.least)
	}
	at, ok := m.places[p]
	if !ok {
		at = m.b.reserve()
		m.places[p] = at
		m.work = append(m.work, p)
	}
	return at
}

// write writes the state of a place.
func (m *matching) write(p place) int32 {
	i := &m.p.prog.Inst[p.pc]
	out := p
	out.pc = i.Out
	switch i.Op {
	case syntax.InstMatch:
		if p.count >= m.least {
			return m.next
		}
	case syntax.InstNop, syntax.InstCapture:
		return m.at(out)
	case syntax.InstAlt, syntax.InstAltMatch:
		other := p
		other.pc = i.Arg
		return m.b.either(m.at(out), m.at(other))
	case syntax.InstEmptyWidth:
		op := syntax.EmptyOp(i.Arg)
		if op&syntax.EmptyBeginText == 0 || !p.begun {
			out.ended = p.ended || op&syntax.EmptyEndText != 0
			return m.at(out)
		}
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		if !p.ended && p.count < m.most {
			out.begun = true
			out.count++
			return m.b.char(runesOf(i), m.spelled, m.at(out))
		}
	}
	return m.b.nothing()
}

// anyRune is all characters, as ranges.
var anyRune = []rune{0, unicode.MaxRune}

// runesOf are the ranges of characters that an instruction takes.
func runesOf(i *syntax.Inst) []rune {
	switch {
	case i.Op == syntax.InstRuneAny:
		return anyRune
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

// char takes one character of some ranges.
func (b *builder) char(ranges []rune, spelled spelling, next int32) int32 {
	key := fmt.Appendf(nil, "%t", spelled)
	for _, r := range ranges {
		key = utf8.AppendRune(key, r)
	}
	entry, ok := b.classes[string(key)]
	if !ok {
		entry = b.class(ranges, spelled)
		b.classes[string(key)] = entry
	}
	return b.call(entry, next)
}

// class takes one character of some ranges and returns. In JSON a character that must be escaped has one spelling, the
// shortest; in the set of all characters each may also be written by its number.
func (b *builder) class(ranges []rune, spelled spelling) int32 {
	var plain [][]byteRange
	escaped := []int32{}
	for i := 0; i < len(ranges); i += 2 {
		low, high := ranges[i], ranges[i+1]
		if spelled == rawText {
			plain = appendUTF8(plain, low, high)
			continue
		}
		from := low
		for _, r := range mustEscape {
			if r >= low && r <= high {
				escaped = append(escaped, b.text(escape(r)[1:], final))
				if from < r {
					plain = appendUTF8(plain, from, r-1)
				}
				from = r + 1
			}
		}
		plain = appendUTF8(plain, from, high)
	}
	if spelled == jsonText && slices.Equal(ranges, anyRune) {
		escaped = append(escaped, b.bytes('/', '/', final), b.bytes('u', 'u', b.numbered()))
	}
	var ways []int32
	if len(escaped) > 0 {
		ways = append(ways, b.bytes('\\', '\\', b.either(escaped...)))
	}
	if len(plain) > 0 {
		ways = append(ways, b.sequences(plain))
	}
	return b.either(ways...)
}

// numbered takes the four hexadecimal digits of a character, or those of the two halves of one.
func (b *builder) numbered() int32 {
	digit := func(ranges string, next int32) int32 {
		var ways []int32
		for i := 0; i < len(ranges); i += 2 {
			ways = append(ways, b.bytes(ranges[i], ranges[i+1], next))
		}
		return b.either(ways...)
	}
	const all = "09AFaf"
	last := digit(all, digit(all, final))
	second := b.text("\\u", digit("DDdd", digit("CFcf", last)))
	first := digit("89ABab", digit(all, digit(all, second)))
	return b.either(digit("09ACEFacef", digit(all, last)), digit("DDdd", b.either(digit("07", last), first)))
}

// byteRange is the bytes from low to high.
type byteRange struct{ low, high byte }

// sequences takes one of some sequences of bytes, in order, and returns. Those that start alike share states.
func (b *builder) sequences(all [][]byteRange) int32 {
	if len(all[0]) == 0 {
		return final
	}
	var ways []int32
	for len(all) > 0 {
		first, n := all[0][0], 1
		for n < len(all) && all[n][0] == first {
			n++
		}
		rests := make([][]byteRange, n)
		for i := range rests {
			rests[i] = all[i][1:]
		}
		ways = append(ways, b.bytes(first.low, first.high, b.sequences(rests)))
		all = all[n:]
	}
	return b.either(ways...)
}

// appendUTF8 appends the sequences of bytes that are the characters from low to high in UTF-8.
func appendUTF8(to [][]byteRange, low, high rune) [][]byteRange {
	const surrogates, behind = 0xD800, 0xE000
	split := func(at rune) [][]byteRange { return appendUTF8(appendUTF8(to, low, at), at+1, high) }
	switch {
	case low > high:
		return to
	case low < behind && high >= surrogates:
		return appendUTF8(appendUTF8(to, low, min(high, surrogates-1)), max(low, behind), high)
	case low < utf8.RuneSelf && high >= utf8.RuneSelf:
		return split(utf8.RuneSelf - 1)
	case low <= 0x7FF && high > 0x7FF:
		return split(0x7FF)
	case low <= 0xFFFF && high > 0xFFFF:
		return split(0xFFFF)
	}
	for i := 6; i < 6*utf8.RuneLen(low); i += 6 { // the last i bits are to take all values, where those before differ
		mask := rune(1)<<i - 1
		if low&^mask == high&^mask {
			continue
		}
		if low&mask != 0 {
			return split(low | mask)
		}
		if high&mask != mask {
			return split(high&^mask - 1)
		}
	}
	l, h := string(low), string(high)
	one := make([]byteRange, len(l))
	for i := range one {
		one[i] = byteRange{l[i], h[i]}
	}
	return append(to, one)
}

// matches reports whether a pattern matches a text.
func (p *pattern) matches(text string) bool {
	return regexp.MustCompile(p.tester).MatchString(text)
}
