// Package pretokenize contains the steps that split a text into words, like the pre_tokenizers of Hugging Face's
// library, and the visible characters in which byte-level BPE writes bytes.
package pretokenize

import (
	"bytes"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"unicode"
	"unicode/utf8"
)

// Step is one step in splitting a text into words. It splits the text or changes it.
type Step interface{ isPreStep() }

// Cut splits a text at the matches of a pattern.
type Cut struct {
	Pattern  *regex.DFA
	Behavior CutBehavior
	Invert   bool // swaps the roles of the matches and the text between them
}

// CutBehavior determines what happens to the matches.
type CutBehavior int

const (
	CutIsolated   CutBehavior = iota // each is a word
	CutRemoved                       // they are dropped
	cutPrevious                      // each ends the word before it, unless that is a match
	CutNext                          // each starts the word after it, unless that is a match
	cutContiguous                    // adjacent matches form one word
)

var CutBehaviors = map[string]CutBehavior{"Isolated": CutIsolated, "Removed": CutRemoved,
	"MergedWithPrevious": cutPrevious, "MergedWithNext": CutNext, "Contiguous": cutContiguous}

// Spaces replaces spaces by another character.
type Spaces struct{ With string }

// Bytes writes each byte as its visible character, see ByteChar.
type Bytes struct{}

// Prefix inserts a text before a piece that does not start with it.
type Prefix struct {
	With  string
	First bool // only before the piece that starts the whole text
}

func (Cut) isPreStep()    {}
func (Spaces) isPreStep() {}
func (Bytes) isPreStep()  {}
func (Prefix) isPreStep() {}

// Change appends the result of a step that does not cut. start reports that the piece starts here, first that it starts
// the whole text.
func Change(step Step, dst, piece []byte, start, first bool) []byte {
	switch step := step.(type) {
	case Spaces:
		for len(piece) > 0 {
			n := bytes.IndexByte(piece, ' ')
			if n < 0 {
				break
			}
			dst = append(append(dst, piece[:n]...), step.With...)
			piece = piece[n+1:]
		}
		return append(dst, piece...)
	case Bytes:
		for _, b := range piece {
			dst = utf8.AppendRune(dst, ByteChar[b])
		}
		return dst
	case Prefix:
		if start && (first || !step.First) && len(piece) > 0 && !bytes.HasPrefix(piece, []byte(step.With)) {
			dst = append(dst, step.With...)
		}
	}
	return append(dst, piece...)
}

// Cut calls word with the bounds of the words of text in order, and returns the offset at which it stopped. If final is
// false, more text may follow. Then it stops before the first word that could change, and a later call can continue
// from there.
func (c *Cut) Cut(text []byte, final bool, word func(lo, hi int)) (done int) {
	p := pieces{step: c, word: word}
	gap := 0
	for at := 0; at < len(text); {
		end, settled := c.Pattern.Match(text, at, final)
		if !settled {
			if gap < at {
				p.add(gap, at, c.Invert)
			}
			return p.lo
		}
		if end == at {
			_, size := utf8.DecodeRune(text[at:])
			at += size
			continue
		}
		if gap < at {
			p.add(gap, at, c.Invert)
		}
		p.add(at, end, !c.Invert)
		gap, at = end, end
	}
	if gap < len(text) {
		p.add(gap, len(text), c.Invert)
	}
	if !final {
		return p.lo
	}
	p.flush()
	return len(text)
}

// pieces joins matches and the text between them. It keeps the last word until what follows is known.
type pieces struct {
	step   *Cut
	word   func(lo, hi int)
	lo, hi int  // the last word
	match  bool // it ends with a match
}

// add adds the next match, or the text before a match.
func (p *pieces) add(lo, hi int, match bool) {
	joins := false
	if p.lo < p.hi {
		switch p.step.Behavior {
		case cutContiguous:
			joins = match == p.match
		case cutPrevious:
			joins = match && !p.match
		case CutNext:
			joins = !match && p.match
		}
	}
	if !joins {
		p.flush()
		p.lo = lo
	}
	p.hi, p.match = hi, match
}

// flush passes the last word on, unless it is to be dropped.
func (p *pieces) flush() {
	if p.lo < p.hi && !(p.match && p.step.Behavior == CutRemoved) {
		p.word(p.lo, p.hi)
	}
	p.lo = p.hi
}

// CompileSet returns a pattern that matches one character of a set or, if many is true, as many as possible.
func CompileSet(set regex.Set, many bool, work *regex.Work) (*regex.DFA, error) {
	node := &regex.Node{Op: regex.OpSet, Set: set}
	if many {
		node = &regex.Node{Op: regex.OpRepeat, Min: 1, Max: -1, Subs: []*regex.Node{node}}
	}
	return regex.CompileNode(node, work)
}

// CompileWords returns the pattern \w+|[^\w\s]+, where \w includes everything alphabetic.
func CompileWords(work *regex.Work) (*regex.DFA, error) {
	letters := regex.TableSet(unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
	others := regex.NewSet(append(append(regex.Set{}, letters...), regex.SetSpace...)).Negate()
	many := func(set regex.Set) *regex.Node {
		return &regex.Node{Op: regex.OpRepeat, Min: 1, Max: -1, Subs: []*regex.Node{{Op: regex.OpSet, Set: set}}}
	}
	return regex.CompileNode(&regex.Node{Op: regex.OpAlt, Subs: []*regex.Node{many(letters), many(others)}}, work)
}

// SetPunctuation returns the set of all punctuation and of ASCII's symbols.
func SetPunctuation() regex.Set {
	return regex.NewSet(append(regex.TableSet(unicode.P), regex.Of("$+<>^`|~")...))
}

// SetNumber returns the set of all characters that are numbers or parts of numbers.
func SetNumber() regex.Set { return regex.TableSet(unicode.N) }
