// Package pretokenize has the steps by which a text becomes words, as the pre_tokenizers of Hugging Face's library, and
// the visible characters that byte-level BPE writes bytes as.
package pretokenize

import (
	"bytes"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"unicode"
	"unicode/utf8"
)

// Step is one step by which a text becomes words: it cuts, or it changes the text.
type Step interface{ isPreStep() }

// Cut cuts a text at the matches of a pattern.
type Cut struct {
	Pattern  *regex.DFA
	Behavior CutBehavior
	Invert   bool // the text between the matches takes the place of the matches
}

// CutBehavior is what becomes of the matches.
type CutBehavior int

const (
	CutIsolated   CutBehavior = iota // each is a word
	CutRemoved                       // they are dropped
	cutPrevious                      // each ends the word before it, if that is no match
	CutNext                          // each starts the word after it, if that is no match
	cutContiguous                    // those that touch are one word
)

var CutBehaviors = map[string]CutBehavior{"Isolated": CutIsolated, "Removed": CutRemoved,
	"MergedWithPrevious": cutPrevious, "MergedWithNext": CutNext, "Contiguous": cutContiguous}

// Spaces puts another character in place of spaces.
type Spaces struct{ With string }

// Bytes writes each byte as its visible character, see byteChar.
type Bytes struct{}

// Prefix puts a text before a piece that does not start with it.
type Prefix struct {
	With  string
	First bool // only before the piece that starts the whole text
}

func (Cut) isPreStep()    {}
func (Spaces) isPreStep() {}
func (Bytes) isPreStep()  {}
func (Prefix) isPreStep() {}

// Change appends what a step that does not cut makes of a piece. start says that the piece starts here, first that it
// starts the whole text.
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

// cut calls word with the bounds of the words of text in order, and returns where it stopped. When final is false more
// text may follow: it stops before the first word that this could change, and a later call can continue from there.
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

// pieces puts matches and the text between them together. The last word is kept until what follows is known.
type pieces struct {
	step   *Cut
	word   func(lo, hi int)
	lo, hi int  // the last word
	match  bool // it ends with a match
}

// add takes the next match, or the text before one.
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

// flush passes on the last word, unless it is to be dropped.
func (p *pieces) flush() {
	if p.lo < p.hi && !(p.match && p.step.Behavior == CutRemoved) {
		p.word(p.lo, p.hi)
	}
	p.lo = p.hi
}

// CompileSet returns the pattern of characters of a set: one, or as many as there are.
func CompileSet(set regex.Set, many bool, work *regex.Work) (*regex.DFA, error) {
	node := &regex.Node{Op: regex.OpSet, Set: set}
	if many {
		node = &regex.Node{Op: regex.OpRepeat, Min: 1, Max: -1, Subs: []*regex.Node{node}}
	}
	return regex.CompileNode(node, work)
}

// CompileWords returns the pattern \w+|[^\w\s]+, where \w has all that is alphabetic.
func CompileWords(work *regex.Work) (*regex.DFA, error) {
	letters := regex.TableSet(unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
	others := regex.NewSet(append(append(regex.Set{}, letters...), regex.SetSpace...)).Negate()
	many := func(set regex.Set) *regex.Node {
		return &regex.Node{Op: regex.OpRepeat, Min: 1, Max: -1, Subs: []*regex.Node{{Op: regex.OpSet, Set: set}}}
	}
	return regex.CompileNode(&regex.Node{Op: regex.OpAlt, Subs: []*regex.Node{many(letters), many(others)}}, work)
}

// SetPunctuation is all punctuation, and the symbols of ASCII.
func SetPunctuation() regex.Set {
	return regex.NewSet(append(regex.TableSet(unicode.P), regex.Of("$+<>^`|~")...))
}

// SetNumber is all that is a number or a part of one.
func SetNumber() regex.Set { return regex.TableSet(unicode.N) }
