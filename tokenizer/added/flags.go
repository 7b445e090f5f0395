package added

import (
	"bytes"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"unicode/utf8"
)

// FlaggedSet is an addedSet whose tokens have flags: single_word, which a token in the middle of a word is not; lstrip
// and rstrip, by which a token takes the white space before or after it.
type FlaggedSet struct {
	Set    *Set
	flags  map[int32]Token // of the tokens that have some
	lstrip bool            // there is a token with lstrip
}

func NewFlaggedSet(list []Token) *FlaggedSet {
	f := &FlaggedSet{flags: map[int32]Token{}}
	for _, a := range list {
		if a.HasFlags() {
			f.flags[a.ID] = a
			f.lstrip = f.lstrip || a.LStrip
		}
	}
	f.Set = NewSet(list)
	return f
}

// FlaggedScan divides a text that arrives in pieces at the tokens of a flaggedSet.
type FlaggedScan struct {
	Find    *FlaggedSet
	skip    bool // white space here belongs to the token before it
	letter  bool // a letter, or what else is part of a word, stands before the text
	Stretch func(text []byte, final bool) error
	Token   func(id int32)
}

// run passes on the text between tokens, and the tokens, and returns how much of text is settled. The offset of an
// *EncodeError counts from the start of text.
func (f *FlaggedScan) Run(text []byte, last bool) (done int, err error) {
	scan := f.Find.Set.Scan(text, last)
	begin, at := 0, 0 // what is passed on, and searched
	defer func() {
		if done > 0 {
			r, size := utf8.DecodeLastRune(text[:done])
			f.letter = isLetter(r, size)
		}
	}()
	pass := func(to int, final bool) error {
		err := token.MoveError(f.Stretch(text[begin:to], final), int64(begin))
		begin = to
		return err
	}
	for {
		if f.skip {
			begin += leadingSpace(text[begin:])
			at = max(at, begin)
			f.skip = begin == len(text)
		}
		lo, hi, id := scan.Next(at)
		flags := f.Find.flags[id]
		if id < 0 || flags.SingleWord && hi == len(text) && !last { // the character after it decides
			if f.Find.lstrip && !last {
				lo -= trailingSpace(text[begin:lo])
			}
			return lo, pass(lo, last)
		}
		if flags.SingleWord && (f.letterBefore(text[:lo]) || letterAt(text[hi:])) {
			at = hi
			continue
		}
		if flags.LStrip {
			lo -= trailingSpace(text[begin:lo])
		}
		if err := pass(lo, true); err != nil {
			return 0, err
		}
		f.Token(id)
		begin, at, f.skip = hi, hi, flags.RStrip
	}
}

// letterBefore reports whether the end of text, or what stood before it, is part of a word.
func (f *FlaggedScan) letterBefore(text []byte) bool {
	if len(text) == 0 {
		return f.letter
	}
	r, size := utf8.DecodeLastRune(text)
	return isLetter(r, size)
}

// letterAt reports whether text starts with a part of a word.
func letterAt(text []byte) bool {
	r, size := utf8.DecodeRune(text)
	return isLetter(r, size)
}

func isLetter(r rune, size int) bool {
	return !(r == utf8.RuneError && size < 2) && regex.SetWord.Has(r)
}

// leadingSpace is the number of bytes of white space that text starts with.
func leadingSpace(text []byte) int { return len(text) - len(bytes.TrimLeftFunc(text, regex.IsSpace)) }

// trailingSpace is the number of bytes of white space that text ends with.
func trailingSpace(text []byte) int { return len(text) - len(bytes.TrimRightFunc(text, regex.IsSpace)) }
