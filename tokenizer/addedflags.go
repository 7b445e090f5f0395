package tokenizer

import "unicode/utf8"

// flaggedSet is an addedSet whose tokens have flags: single_word, which a token in the middle of a word is not; lstrip
// and rstrip, by which a token takes the white space before or behind it.
type flaggedSet struct {
	set    *addedSet
	flags  map[int32]hfAdded // of the tokens that have some
	lstrip bool              // there is a token with lstrip
}

func newFlaggedSet(list []hfAdded) *flaggedSet {
	f := &flaggedSet{flags: map[int32]hfAdded{}}
	for _, a := range list {
		if a.SingleWord || a.LStrip || a.RStrip {
			f.flags[a.ID] = a
			f.lstrip = f.lstrip || a.LStrip
		}
	}
	f.set = newAddedSet(list)
	return f
}

// flaggedScan divides a text that arrives in pieces at the tokens of a flaggedSet.
type flaggedScan struct {
	find    *flaggedSet
	skip    bool // white space here belongs to the token before it
	letter  bool // a letter, or what else is part of a word, stands before the text
	stretch func(text []byte, final bool) error
	token   func(id int32)
}

// run passes on the text between tokens, and the tokens, and returns how much of text is settled. The offset of an
// *EncodeError counts from the start of text.
func (f *flaggedScan) run(text []byte, last bool) (done int, err error) {
	scan := f.find.set.scan(text, last)
	begin, at := 0, 0 // what is passed on, and searched
	defer func() {
		if done > 0 {
			r, size := utf8.DecodeLastRune(text[:done])
			f.letter = isLetter(r, size)
		}
	}()
	pass := func(to int, final bool) error {
		err := moveError(f.stretch(text[begin:to], final), int64(begin))
		begin = to
		return err
	}
	for {
		if f.skip {
			begin += leadingSpace(text[begin:])
			at = max(at, begin)
			f.skip = begin == len(text)
		}
		lo, hi, id := scan.next(at)
		flags := f.find.flags[id]
		if id < 0 || flags.SingleWord && hi == len(text) && !last { // the character behind it decides
			if f.find.lstrip && !last {
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
		f.token(id)
		begin, at, f.skip = hi, hi, flags.RStrip
	}
}

// letterBefore tells whether the end of text, or what stood before it, is part of a word.
func (f *flaggedScan) letterBefore(text []byte) bool {
	if len(text) == 0 {
		return f.letter
	}
	r, size := utf8.DecodeLastRune(text)
	return isLetter(r, size)
}

// letterAt tells whether text begins with a part of a word.
func letterAt(text []byte) bool {
	r, size := utf8.DecodeRune(text)
	return isLetter(r, size)
}

func isLetter(r rune, size int) bool {
	return !(r == utf8.RuneError && size < 2) && setWord.has(r)
}

// leadingSpace is the number of bytes of white space that text begins with.
func leadingSpace(text []byte) (n int) {
	for n < len(text) {
		r, size := utf8.DecodeRune(text[n:])
		if !isSpace(r) {
			break
		}
		n += size
	}
	return n
}

// trailingSpace is the number of bytes of white space that text ends with.
func trailingSpace(text []byte) (n int) {
	for n < len(text) {
		r, size := utf8.DecodeLastRune(text[:len(text)-n])
		if !isSpace(r) {
			break
		}
		n += size
	}
	return n
}
