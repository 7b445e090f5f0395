package regex

import "unicode/utf8"

// GPT2Pattern is the regular expression by which GPT-2 splits text into words (src/encoder.py of its release).
const GPT2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// Splitter splits text into words: by its first pattern, the resulting pieces by its second, and so on. Text between
// matches is a piece too, so no text is lost ("Isolated" in Hugging Face's terms). Without a pattern, the whole text is
// one word.
type Splitter []*DFA

// Split splits text[lo:hi] and calls word with the bounds of each word, in order. It returns the offset at which it
// stopped. If final is false, more text may follow text[hi]. Then it stops before the first word that this could
// change, and a later call can continue from there.
func (s Splitter) Split(text []byte, lo, hi int, final bool, word func(lo, hi int)) (done int) {
	if len(s) == 0 {
		if !final || lo == hi {
			return lo
		}
		word(lo, hi)
		return hi
	}
	gap := lo // start of the text without a match
	for at := lo; at < hi; {
		end, settled := s[0].Match(text[:hi], at, final)
		if !settled {
			return s[1:].Split(text, gap, at, false, word)
		}
		if end == at {
			_, size := utf8.DecodeRune(text[at:hi])
			at += size
			continue
		}
		if gap < at {
			s[1:].Split(text, gap, at, true, word)
		}
		if len(s) == 1 {
			word(at, end)
		} else {
			s[1:].Split(text, at, end, true, word)
		}
		gap, at = end, end
	}
	if gap < hi {
		return s[1:].Split(text, gap, hi, final, word)
	}
	return hi
}
