package task

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// textList stores texts in one piece of memory.
type textList struct {
	bytes []byte
	ends  []int
}

func (l *textList) add(text []byte) {
	l.bytes = append(l.bytes, text...)
	l.ends = append(l.ends, len(l.bytes))
}

func (l *textList) at(i int) []byte {
	start := 0
	if i > 0 {
		start = l.ends[i-1]
	}
	return l.bytes[start:l.ends[i]]
}

// cutText returns the first n characters of a text, or the first n bytes if bytes is set.
func cutText(text []byte, n int, bytes bool) []byte {
	if len(text) <= n {
		return text
	}
	if bytes {
		return text[:n]
	}
	end := 0
	for ; n > 0 && end < len(text); n-- {
		_, size := utf8.DecodeRune(text[end:])
		end += size
	}
	return text[:end]
}

// The first codes, before those of characters.
const (
	_           int32 = iota // padding, which does not occur in examples
	codeUnknown              // a rare character
	codeEnd                  // the end of a text
	firstCode                // first code of a character
)

// characters holds the codes of characters. They are numbered as by torchtext in the official pipeline: after the first
// codes, in descending order of frequency, then by code point.
type characters struct {
	bytes bool           // code bytes by their value instead of characters
	codes map[rune]int32 // codes of characters
}

// size returns the number of codes.
func (c *characters) size() int {
	if c.bytes {
		return int(firstCode) + 256
	}
	return int(firstCode) + len(c.codes)
}

// encode appends the codes of a text, at most limit codes including the end.
func (c *characters) encode(dst []int32, text []byte, limit int) []int32 {
	text = cutText(text, limit-1, c.bytes)
	if c.bytes {
		for _, b := range text {
			dst = append(dst, firstCode+int32(b))
		}
		return append(dst, codeEnd)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		code, ok := c.codes[r]
		if !ok {
			code = codeUnknown
		}
		dst, text = append(dst, code), text[size:]
	}
	return append(dst, codeEnd)
}

// characterCounts counts characters.
type characterCounts struct {
	ascii  [utf8.RuneSelf]int
	others map[rune]int
}

// add counts the characters of a text that occurs the given number of times.
func (n *characterCounts) add(text []byte, times int) {
	for len(text) > 0 {
		if b := text[0]; b < utf8.RuneSelf {
			n.ascii[b] += times
			text = text[1:]
			continue
		}
		r, size := utf8.DecodeRune(text)
		if n.others == nil {
			n.others = map[rune]int{}
		}
		n.others[r] += times
		text = text[size:]
	}
}

// characters assigns codes to the characters that occur at least least times.
func (n *characterCounts) characters(least int) *characters {
	type counted struct {
		r     rune
		times int
	}
	var all []counted
	for r, times := range n.ascii {
		if times >= max(least, 1) {
			all = append(all, counted{rune(r), times})
		}
	}
	for r, times := range n.others {
		if times >= least {
			all = append(all, counted{r, times})
		}
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Or(b.times-a.times, int(a.r-b.r)) })
	c := &characters{codes: make(map[rune]int32, len(all))}
	for i, x := range all {
		c.codes[x.r] = firstCode + int32(i)
	}
	return c
}

// textSplit is a Split of texts. Each text has a class.
type textSplit struct {
	texts  textList
	labels []int32
	codes  *characters
	limit  int // maximum number of positions per example
}

func (s *textSplit) Len() int { return len(s.labels) }

func (s *textSplit) Example(i int, ex *Example) {
	ex.Reset()
	ex.Tokens = s.codes.encode(ex.Tokens, s.texts.at(i), s.limit)
	ex.Targets = append(ex.Targets, s.labels[i])
}
