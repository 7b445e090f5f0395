package data

import (
	"io"
	"unicode/utf8"
)

// Words returns the number of words in the text that the tokens stand for. A word is a run of bytes between white space
// (space, tab, line feed, carriage return). dec returns the bytes of an id. A word that is cut by the first or the last
// token counts as a word. Words in parts that are Given do not count. The only error is a *LostError.
func (t *Tokens) Words(dec Decoder) (words int, err error) {
	if t.Given() {
		return t.targetWords(dec)
	}
	return t.words(dec)
}

// targetWords counts the words of each run of tokens that are not Given.
func (t *Tokens) targetWords(dec Decoder) (words int, err error) {
	next := func(from int, given bool) int {
		for from < t.Len() && t.store.isGiven(t.lo+from) != given {
			from++
		}
		return from
	}
	for lo, hi := 0, 0; hi < t.Len() && err == nil; {
		if err = t.store.guard(func() { lo = next(hi, false); hi = next(lo, true) }); err == nil {
			var n int
			n, err = t.Slice(lo, hi).words(dec)
			words += n
		}
	}
	return words, err
}

func (t *Tokens) words(dec Decoder) (words int, err error) {
	inside := false
	err = t.eachText(dec, func(text []byte, _, _ bool) error {
		for _, c := range text {
			space := c == ' ' || c == '\n' || c == '\t' || c == '\r'
			if !space && !inside {
				words++
			}
			inside = !space
		}
		return nil
	})
	return words, err
}

// WriteText writes the text that the tokens stand for. It leaves out incomplete characters at the start and the end.
// dec returns the bytes of an id.
func (t *Tokens) WriteText(w io.Writer, dec Decoder) error {
	return t.eachText(dec, func(text []byte, first, last bool) error {
		if first {
			for i := 0; i < utf8.UTFMax-1 && len(text) > 0 && !utf8.RuneStart(text[0]); i++ {
				text = text[1:]
			}
		}
		if last {
			text = text[:len(text)-cutOff(text)]
		}
		_, err := w.Write(text)
		return err
	})
}

// cutOff returns how many bytes at the end of a text are the start of an incomplete character.
func cutOff(text []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if tail := text[len(text)-i:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return i
		}
	}
	return 0
}

// eachText decodes the tokens, a few thousand at a time. first and last mark the first and the last piece of text.
func (t *Tokens) eachText(dec Decoder, visit func(text []byte, first, last bool) error) error {
	var ids [1 << 12]int32
	var text []byte
	for at := 0; at < t.Len(); {
		n, err := t.Read(ids[:], at)
		if err != nil {
			return err
		}
		text = dec.Decode(text[:0], ids[:n])
		if err := visit(text, at == 0, at+n == t.Len()); err != nil {
			return err
		}
		at += n
	}
	return nil
}
