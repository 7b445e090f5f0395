package constrain

import (
	"cmp"
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// thread is a position in one of the programs of the patterns.
type thread struct {
	prog  int
	pc    uint32
	ahead ahead // only used in never
}

// place is the position of a text in patterns that must all match. All threads in must have to match: those of patterns
// at the end of the text, those of lookaheads anywhere. No thread in never may match.
type place struct {
	begun, word bool  // a character precedes it; this is one of a word
	ahead       ahead // restriction of the next character
	count       int   // number of characters so far
	must, never []thread
}

// matching writes states that accept the texts that have a permitted length and that all patterns match.
type matching struct {
	b           *builder
	progs       []*syntax.Prog
	looks       []map[uint32]look // with indices of progs
	whole       []bool            // by program: whether it is of a pattern, not of a lookahead
	words       bool              // some program has \b or \B
	spelled     spelling
	least, most int
	next        int32
	places      map[string]int32
	work        []place
	ways        []int32 // reserved states of work
}

// pattern writes states that accept the texts of least to most characters that all patterns match.
func (b *builder) pattern(all []*pattern, spelled spelling, least, most int, next int32) int32 {
	return b.patternBut(all, nil, spelled, least, most, next)
}

// patternBut is like pattern, without the texts that a pattern of not matches.
func (b *builder) patternBut(all, not []*pattern, spelled spelling, least, most int, next int32) int32 {
	m := &matching{b: b, spelled: spelled, least: least, most: most, next: next, places: map[string]int32{}}
	start, longest := place{}, unlimited
	if len(all) == 0 {
		all = []*pattern{newPattern(b.path, "", false)} // matches any text
	}
	for i, p := range slices.Concat(all, not) {
		b.path = p.path
		at := len(m.progs)
		if first := (thread{prog: at, pc: uint32(p.progs[0].Start)}); i < len(all) {
			start.must = append(start.must, first)
			longest = min(longest, p.most)
		} else if len(p.progs) > 1 {
			fail(p.path, "found a lookahead, want none in the name of a property")
		} else {
			start.never = append(start.never, first)
		}
		for i, prog := range p.progs {
			looks := map[uint32]look{}
			for arg, l := range p.looks[i] {
				looks[arg] = look{l.prog + at, l.never}
			}
			m.progs, m.looks, m.whole = append(m.progs, prog), append(m.looks, looks), append(m.whole, i == 0)
			m.words = m.words || slices.ContainsFunc(prog.Inst, func(i syntax.Inst) bool {
				return i.Op == syntax.InstEmptyWidth &&
					syntax.EmptyOp(i.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
			})
		}
	}
	if longest <= most {
		m.most = unlimited
	}
	never, ok := m.close(start.never, false, false)
	if !ok {
		return b.nothing()
	}
	start.never = never
	first := m.at(start)
	for len(m.work) > 0 {
		last := len(m.work) - 1
		p, at := m.work[last], m.ways[last]
		m.work, m.ways = m.work[:last], m.ways[:last]
		b.set(at, m.write(p))
	}
	return first
}

func compareThreads(a, b thread) int {
	return cmp.Or(cmp.Compare(a.prog, b.prog), cmp.Compare(a.pc, b.pc), cmp.Compare(a.ahead, b.ahead))
}

// sorted returns threads in order, each once.
func sorted(all []thread) []thread {
	slices.SortFunc(all, compareThreads)
	return slices.Compact(all)
}

// at returns the state of a place.
func (m *matching) at(p place) int32 {
	if m.most == unlimited {
		p.count = min(p.count, m.least)
	}
	p.must, p.never = sorted(p.must), sorted(p.never)
	key := []byte{byte(p.ahead) << 2}
	if p.begun {
		key[0] |= 1
	}
	if p.word {
		key[0] |= 2
	}
	key = binary.AppendUvarint(key, uint64(p.count))
	for _, all := range [][]thread{p.must, p.never} {
		key = binary.AppendUvarint(key, uint64(len(all)))
		for _, t := range all {
			key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(t.prog)), uint64(t.pc))
			key = append(key, byte(t.ahead))
		}
	}
	at, ok := m.places[string(key)]
	if !ok {
		at = m.b.reserve()
		m.places[string(key)] = at
		m.work, m.ways = append(m.work, p), append(m.ways, at)
	}
	return at
}

// write writes the state of a place: one step of a thread that does not accept a character or, if there is none, the
// end or the next character.
func (m *matching) write(p place) int32 {
	done := 0
	for i, t := range p.must {
		// with returns the place with the thread replaced by others.
		with := func(others ...thread) place {
			q := p
			q.must = append(slices.Concat(p.must[:i], p.must[i+1:]), others...)
			return q
		}
		inst := &m.progs[t.prog].Inst[t.pc]
		out := thread{prog: t.prog, pc: inst.Out}
		switch inst.Op {
		case syntax.InstMatch:
			if !m.whole[t.prog] { // a lookahead has matched
				return m.at(with())
			}
			done++
		case syntax.InstFail:
			return m.b.nothing()
		case syntax.InstNop:
			return m.at(with(out))
		case syntax.InstCapture:
			q := with(out)
			if l, ok := m.looks[t.prog][inst.Arg]; ok {
				first := thread{prog: l.prog, pc: uint32(m.progs[l.prog].Start)}
				if !l.never {
					q.must = append(q.must, first)
				} else if q.never, ok = m.close(append(slices.Clone(p.never), first), p.begun, p.word); !ok {
					return m.b.nothing()
				}
			}
			return m.at(q)
		case syntax.InstAlt, syntax.InstAltMatch:
			return m.b.either(m.at(with(out)), m.at(with(thread{prog: t.prog, pc: inst.Arg})))
		case syntax.InstEmptyWidth:
			q := with(out)
			more, ok := asks(syntax.EmptyOp(inst.Arg), p.begun, p.word)
			if ok {
				q.ahead, ok = p.ahead.and(more)
			}
			if !ok {
				return m.b.nothing()
			}
			return m.at(q)
		}
	}
	switch {
	case done == len(p.must):
		bad := func(t thread) bool {
			return m.progs[t.prog].Inst[t.pc].Op == syntax.InstMatch && t.ahead != aheadWord
		}
		if p.count >= m.least && p.ahead != aheadWord && !slices.ContainsFunc(p.never, bad) {
			return m.next
		}
	case done == 0 && p.ahead != aheadEnd && p.count < m.most:
		return m.char(p)
	}
	return m.b.nothing()
}

// char writes states that accept the next character.
func (m *matching) char(p place) int32 {
	next := place{begun: true, count: p.count + 1}
	var runes []rune
	for i, t := range p.must {
		inst := &m.progs[t.prog].Inst[t.pc]
		if of := runesOf(inst, m.spelled); i == 0 {
			runes = of
		} else {
			runes = intersection(runes, of)
		}
		next.must = append(next.must, thread{prog: t.prog, pc: inst.Out})
	}
	if !m.words {
		return m.b.either(m.after(p, next, runes)...)
	}
	var states []int32
	for i, side := range [][]rune{otherRunes, wordRunes} {
		if next.word = i == 1; p.ahead.allows(next.word) {
			states = append(states, m.after(p, next, intersection(runes, side))...)
		}
	}
	return m.b.either(states...)
}

// after writes states that accept a character of runes and lead from p to next, except characters after which a thread
// of never matches. If m.words is set, either all of runes are characters of words or none is.
func (m *matching) after(p, next place, runes []rune) (states []int32) {
	if len(runes) == 0 {
		return nil
	}
	if len(p.never) == 0 {
		return []int32{m.b.char(runes, m.spelled, m.at(next))}
	}
	// Characters that lead to the same threads of never share one way.
	cuts := []rune{}
	for _, t := range p.never {
		if inst := &m.progs[t.prog].Inst[t.pc]; inst.Op != syntax.InstMatch && t.ahead != aheadEnd {
			for i, r := range runesOf(inst, m.spelled) {
				cuts = append(cuts, r+rune(i%2))
			}
		}
	}
	slices.Sort(cuts)
	type way struct {
		never []thread
		runes []rune
	}
	var ways []way
	for i := 0; i < len(runes); i += 2 {
		for low := runes[i]; low <= runes[i+1]; {
			high := runes[i+1]
			if j, _ := slices.BinarySearch(cuts, low+1); j < len(cuts) {
				high = min(high, cuts[j]-1)
			}
			if never, ok := m.step(p.never, low, next.word); ok {
				same := func(w way) bool { return slices.Equal(w.never, never) }
				j := slices.IndexFunc(ways, same)
				if j < 0 {
					j, ways = len(ways), append(ways, way{never: never})
				}
				if n := len(ways[j].runes); n > 0 && ways[j].runes[n-1] == low-1 {
					ways[j].runes[n-1] = high
				} else {
					ways[j].runes = append(ways[j].runes, low, high)
				}
			}
			low = high + 1
		}
	}
	for _, w := range ways {
		q := next
		q.must, q.never = slices.Clone(next.must), w.never
		states = append(states, m.b.char(w.runes, m.spelled, m.at(q)))
	}
	return states
}

// step returns the threads of never after a character. ok is false if one of them matches.
func (m *matching) step(never []thread, r rune, word bool) (after []thread, ok bool) {
	for _, t := range never {
		inst := &m.progs[t.prog].Inst[t.pc]
		if !t.ahead.allows(word) {
			continue
		}
		if inst.Op == syntax.InstMatch {
			return nil, false
		}
		runes := runesOf(inst, m.spelled)
		for i := 0; i < len(runes); i += 2 {
			if r >= runes[i] && r <= runes[i+1] {
				after = append(after, thread{prog: t.prog, pc: inst.Out})
				break
			}
		}
	}
	return m.close(after, true, word)
}

// close follows threads of never until they accept a character, or match if the text ends. ok is false if one matches
// already.
func (m *matching) close(work []thread, begun, word bool) (out []thread, ok bool) {
	seen := map[thread]bool{}
	for len(work) > 0 {
		t := work[len(work)-1]
		if work = work[:len(work)-1]; seen[t] {
			continue
		}
		seen[t] = true
		inst := &m.progs[t.prog].Inst[t.pc]
		next := thread{t.prog, inst.Out, t.ahead}
		switch inst.Op {
		case syntax.InstFail:
		case syntax.InstMatch:
			if t.ahead == aheadAny {
				return nil, false
			}
			out = append(out, t)
		case syntax.InstNop, syntax.InstCapture:
			work = append(work, next)
		case syntax.InstAlt, syntax.InstAltMatch:
			work = append(work, next, thread{t.prog, inst.Arg, t.ahead})
		case syntax.InstEmptyWidth:
			more, may := asks(syntax.EmptyOp(inst.Arg), begun, word)
			if may {
				next.ahead, may = t.ahead.and(more)
			}
			if may {
				work = append(work, next)
			}
		default:
			if t.ahead != aheadEnd {
				out = append(out, t)
			}
		}
	}
	return sorted(out), true
}

// intersection returns the ranges of the characters that are in both sets of ranges.
func intersection(a, b []rune) (out []rune) {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if low, high := max(a[i], b[j]), min(a[i+1], b[j+1]); low <= high {
			out = append(out, low, high)
		}
		if a[i+1] < b[j+1] {
			i += 2
		} else {
			j += 2
		}
	}
	return out
}

// matches reports whether a pattern matches a text.
func (p *pattern) matches(text string) bool {
	g, err := build(func(b *builder) int32 { return b.pattern([]*pattern{p}, rawText, 0, unlimited, final) })
	if err != nil {
		return false // the pattern matches no text
	}
	m := newMachine(g, g.needs(nil))
	at := m.start
	for i := range len(text) {
		at = m.step(at, text[i])
	}
	return at.ends
}
