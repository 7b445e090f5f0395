// Package normalize contains the changes that a tokenizer makes to a text before it splits it into words. They are the
// normalizers of Hugging Face's library and of SentencePiece, for texts that arrive in pieces.
package normalize

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"golang.org/x/text/unicode/norm"
)

// Normalizer is one step in changing a text before it is split into words.
type Normalizer interface {
	// Apply appends the result for the start of src that cannot depend on text after src, and returns the length of
	// that start. src consists of whole characters, and of bytes that are not UTF-8. start reports that src starts the
	// stretch of text, final that it ends the stretch; then all of src is used.
	Apply(dst, src []byte, start, final bool) ([]byte, int)
}

// Chain holds the steps for one text, and the text that each step holds back.
type Chain struct {
	steps []Normalizer
	state []chainState // one for each step
}

type chainState struct {
	pending, out []byte
	inside       bool // part of the stretch has passed this step
}

func NewChain(steps []Normalizer) Chain { return Chain{steps, make([]chainState, len(steps))} }

// Push passes the next part of a stretch through the steps, and returns the output of the last. The output is valid
// until the next call, and as long as src is.
func (c *Chain) Push(src []byte, final bool) []byte {
	for i, step := range c.steps {
		s := &c.state[i]
		in := src
		if len(s.pending) > 0 {
			s.pending = append(s.pending, src...)
			in = s.pending
		}
		out, used := in, 0
		form, ok := step.(UnicodeForm)
		if ok = ok && len(s.pending) == 0; ok { // most text is in its form and need not be copied
			used, ok = form.keeps(in, final)
			out = in[:used]
		}
		if !ok {
			out, used = step.Apply(s.out[:0], in, !s.inside, final)
			s.out = out
		}
		s.inside = !final && (s.inside || used > 0)
		s.pending = append(s.pending[:0], in[used:]...)
		src = out
	}
	return src
}

// Held returns the number of bytes that steps hold back.
func (c *Chain) Held() (n int) {
	for i := range c.state {
		n += len(c.state[i].pending)
	}
	return n
}

// UnicodeForm is a Unicode normalization form.
type UnicodeForm struct{ Form norm.Form }

func (f UnicodeForm) Apply(dst, src []byte, _, final bool) ([]byte, int) {
	n, ok := f.keeps(src, final)
	if ok {
		return append(dst, src[:n]...), n
	}
	return append(dst, f.Form.Bytes(src[:n])...), n
}

// keeps returns how much of src is settled, and whether that is already in the form.
func (f UnicodeForm) keeps(src []byte, final bool) (n int, ok bool) {
	n = len(src)
	if !final {
		n = max(f.Form.LastBoundary(src), 0)
	}
	return n, f.Form.QuickSpan(src[:n]) == n
}

// EachRune changes a text character by character. A byte that is not UTF-8 stays.
type EachRune func(dst []byte, r rune) []byte

func (f EachRune) Apply(dst, src []byte, _, _ bool) ([]byte, int) {
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, src[i])
		} else {
			dst = f(dst, r)
		}
		i += size
	}
	return dst, len(src)
}

// Lowercase appends the lower case of a letter, regardless of the letters around it.
func Lowercase(dst []byte, r rune) []byte {
	if r == 'İ' { // the only letter whose lower case is two characters
		return append(dst, "i\u0307"...)
	}
	return utf8.AppendRune(dst, unicode.ToLower(r))
}

// StripAccents removes marks, which come after their letters in a decomposed form.
func StripAccents(dst []byte, r rune) []byte {
	if unicode.Is(unicode.M, r) {
		return dst
	}
	return utf8.AppendRune(dst, r)
}

// StripSpace removes white space at the ends.
type StripSpace struct{ Left, Right bool }

func (s StripSpace) Apply(dst, src []byte, start, final bool) ([]byte, int) {
	text := src
	if s.Left && start {
		text = bytes.TrimLeftFunc(text, regex.IsSpace)
		if len(text) == 0 && !final {
			return dst, 0
		}
	}
	kept := text
	if s.Right {
		kept = bytes.TrimRightFunc(text, regex.IsSpace)
	}
	if final {
		return append(dst, kept...), len(src)
	}
	return append(dst, kept...), len(src) - len(text) + len(kept)
}

// SqueezeSpaces removes spaces at the ends and replaces several spaces by one, like SentencePiece's
// remove_extra_whitespaces.
type SqueezeSpaces struct{}

func (SqueezeSpaces) Apply(dst, src []byte, start, final bool) ([]byte, int) {
	i := 0
	for i < len(src) && start && src[i] == ' ' {
		i++
	}
	if i == len(src) && !final {
		return dst, 0
	}
	for i < len(src) {
		if src[i] != ' ' {
			dst = append(dst, src[i])
			i++
			continue
		}
		from := i
		for i < len(src) && src[i] == ' ' {
			i++
		}
		if i < len(src) {
			dst = append(dst, ' ')
		} else if !final {
			return dst, from // there is a space here if more text follows
		}
	}
	return dst, len(src)
}

// Prepend inserts a text before each stretch that is not empty.
type Prepend string

func (p Prepend) Apply(dst, src []byte, start, _ bool) ([]byte, int) {
	if start && len(src) > 0 {
		dst = append(dst, p...)
	}
	return append(dst, src...), len(src)
}

// ReplaceText replaces all occurrences of a text.
type ReplaceText struct{ Old, New []byte }

func (p ReplaceText) Apply(dst, src []byte, _, final bool) ([]byte, int) {
	i := 0
	for {
		n := bytes.Index(src[i:], p.Old)
		if n < 0 {
			break
		}
		dst = append(append(dst, src[i:i+n]...), p.New...)
		i += n + len(p.Old)
	}
	end := len(src)
	if !final {
		// the longest end of src that may be the start of Old
		for end = max(i, len(src)-len(p.Old)+1); end < len(src) && !bytes.HasPrefix(p.Old, src[end:]); end++ {
		}
	}
	return append(dst, src[i:end]...), end
}

// ReplaceMatches replaces all matches of a pattern.
type ReplaceMatches struct {
	Pattern *regex.DFA
	New     []byte
}

func (p ReplaceMatches) Apply(dst, src []byte, _, final bool) ([]byte, int) {
	for i := 0; i < len(src); {
		end, settled := p.Pattern.Match(src, i, final)
		if !settled {
			return dst, i
		}
		if end > i {
			dst = append(dst, p.New...)
			i = end
			continue
		}
		_, size := utf8.DecodeRune(src[i:])
		dst = append(dst, src[i:i+size]...)
		i += size
	}
	return dst, len(src)
}
