package tokenizer

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// preStep is one step by which a text becomes words: it cuts, or it changes the text.
type preStep interface{ isPreStep() }

// cutStep cuts a text at the matches of a pattern.
type cutStep struct {
	pattern  *dfa
	behavior cutBehavior
	invert   bool // the text between the matches takes the place of the matches
}

// cutBehavior is what becomes of the matches.
type cutBehavior int

const (
	cutIsolated   cutBehavior = iota // each is a word
	cutRemoved                       // they are dropped
	cutPrevious                      // each ends the word before it, if that is no match
	cutNext                          // each begins the word behind it, if that is no match
	cutContiguous                    // those that touch are one word
)

var cutBehaviors = map[string]cutBehavior{"Isolated": cutIsolated, "Removed": cutRemoved,
	"MergedWithPrevious": cutPrevious, "MergedWithNext": cutNext, "Contiguous": cutContiguous}

// spaceStep puts another character in the place of spaces.
type spaceStep struct{ with string }

// bytesStep writes each byte as its visible character, see byteChar.
type bytesStep struct{}

// prefixStep puts a text before a piece that does not begin with it.
type prefixStep struct {
	with  string
	first bool // only before the piece that begins the whole text
}

func (cutStep) isPreStep()    {}
func (spaceStep) isPreStep()  {}
func (bytesStep) isPreStep()  {}
func (prefixStep) isPreStep() {}

// change appends what a step that does not cut makes of a piece. start says that the piece begins here, first that it
// begins the whole text.
func change(step preStep, dst, piece []byte, start, first bool) []byte {
	switch step := step.(type) {
	case spaceStep:
		for len(piece) > 0 {
			n := bytes.IndexByte(piece, ' ')
			if n < 0 {
				break
			}
			dst = append(append(dst, piece[:n]...), step.with...)
			piece = piece[n+1:]
		}
		return append(dst, piece...)
	case bytesStep:
		for _, b := range piece {
			dst = utf8.AppendRune(dst, byteChar[b])
		}
		return dst
	case prefixStep:
		if start && (first || !step.first) && len(piece) > 0 && !bytes.HasPrefix(piece, []byte(step.with)) {
			dst = append(dst, step.with...)
		}
	}
	return append(dst, piece...)
}

// cut calls word with the bounds of the words of text in order, and returns where it stopped. When final is false more
// text may follow: it stops before the first word that this could change, and a later call can go on from there.
func (c *cutStep) cut(text []byte, final bool, word func(lo, hi int)) (done int) {
	p := pieces{step: c, word: word}
	gap := 0
	for at := 0; at < len(text); {
		end, settled := c.pattern.match(text, at, final)
		if !settled {
			if gap < at {
				p.add(gap, at, c.invert)
			}
			return p.lo
		}
		if end == at {
			_, size := utf8.DecodeRune(text[at:])
			at += size
			continue
		}
		if gap < at {
			p.add(gap, at, c.invert)
		}
		p.add(at, end, !c.invert)
		gap, at = end, end
	}
	if gap < len(text) {
		p.add(gap, len(text), c.invert)
	}
	if !final {
		return p.lo
	}
	p.flush()
	return len(text)
}

// pieces puts matches and the text between them together. The last word is kept until what follows is known.
type pieces struct {
	step   *cutStep
	word   func(lo, hi int)
	lo, hi int  // the last word
	match  bool // it ends with a match
}

// add takes the next match, or the text before one.
func (p *pieces) add(lo, hi int, match bool) {
	joins := false
	if p.lo < p.hi {
		switch p.step.behavior {
		case cutContiguous:
			joins = match == p.match
		case cutPrevious:
			joins = match && !p.match
		case cutNext:
			joins = !match && p.match
		}
	}
	if !joins {
		p.flush()
		p.lo = lo
	}
	p.hi, p.match = hi, match
}

// flush passes on the last word, unless it is to be dropped.
func (p *pieces) flush() {
	if p.lo < p.hi && !(p.match && p.step.behavior == cutRemoved) {
		p.word(p.lo, p.hi)
	}
	p.lo = p.hi
}

// compileSet makes the pattern of characters of a set: one, or as many as there are.
func compileSet(set runeSet, many bool, work *regexWork) (*dfa, error) {
	node := &regexNode{op: opSet, set: set}
	if many {
		node = &regexNode{op: opRepeat, min: 1, max: -1, subs: []*regexNode{node}}
	}
	return compileNode(node, work)
}

// compileWords makes the pattern \w+|[^\w\s]+, where \w has all that is alphabetic.
func compileWords(work *regexWork) (*dfa, error) {
	letters := tableSet(unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
	others := newRuneSet(append(append(runeSet{}, letters...), setSpace...)).negate()
	many := func(set runeSet) *regexNode {
		return &regexNode{op: opRepeat, min: 1, max: -1, subs: []*regexNode{{op: opSet, set: set}}}
	}
	return compileNode(&regexNode{op: opAlt, subs: []*regexNode{many(letters), many(others)}}, work)
}

// setPunctuation is all punctuation, and the symbols of ASCII.
func setPunctuation() runeSet {
	return newRuneSet(append(append(runeSet{}, tableSet(unicode.P)...),
		runeRange{'$', '$'}, runeRange{'+', '+'}, runeRange{'<', '>'}, runeRange{'^', '^'}, runeRange{'`', '`'},
		runeRange{'|', '|'}, runeRange{'~', '~'}))
}

// setNumber is all that is a number or a part of one.
func setNumber() runeSet { return tableSet(unicode.N) }
