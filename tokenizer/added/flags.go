package added

import (
	"bytes"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"unicode/utf8"
)

// FlaggedSet is a Set whose tokens have flags. A token with single_word is not found in the middle of a word. A token
// with lstrip or rstrip includes the white space before or after it.
type FlaggedSet struct {
	Set    *Set
	flags  map[int32]Token // tokens that have flags
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

// FlaggedScan divides a text that arrives in pieces at the tokens of a FlaggedSet.
type FlaggedScan struct {
	Find    *FlaggedSet
	skip    bool // white space here belongs to the previous token
	letter  bool // the character before the text is part of a word
	Stretch func(text []byte, final bool) error
	Token   func(id int32)
}

// Run passes the tokens, and the text between them, to the functions, and returns how much of text is settled. The
// offset of an *EncodeError counts from the start of text.
func (f *FlaggedScan) Run(text []byte, last bool) (done int, err error) {
	scan := f.Find.Set.Scan(text, last)
	begin, at := 0, 0 // end of the text that was passed on, and where to search
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
		if id < 0 || flags.SingleWord && hi == len(text) && !last { // depends on the next character
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

// letterBefore reports whether the end of text, or the character before an empty text, is part of a word.
func (f *FlaggedScan) letterBefore(text []byte) bool {
	if len(text) == 0 {
		return f.letter
	}
	r, size := utf8.DecodeLastRune(text)
	return isLetter(r, size)
}

// letterAt reports whether text starts with a character that is part of a word.
func letterAt(text []byte) bool {
	r, size := utf8.DecodeRune(text)
	return isLetter(r, size)
}

func isLetter(r rune, size int) bool {
	return !(r == utf8.RuneError && size < 2) && regex.SetWord.Has(r)
}

// leadingSpace returns the number of bytes of white space at the start of text.
func leadingSpace(text []byte) int { return len(text) - len(bytes.TrimLeftFunc(text, regex.IsSpace)) }

// trailingSpace returns the number of bytes of white space at the end of text.
func trailingSpace(text []byte) int { return len(text) - len(bytes.TrimRightFunc(text, regex.IsSpace)) }
