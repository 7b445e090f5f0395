// Package normalize has the changes that a tokenizer makes to a text before it looks for words, as the normalizers of
// Hugging Face's library and of SentencePiece make them, for texts that arrive in pieces.
package normalize

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"golang.org/x/text/unicode/norm"
)

// Normalizer is one step of the changes that a tokenizer makes to a text before it looks for words.
type Normalizer interface {
	// apply appends to dst what the start of src becomes that nothing after src can change, and returns how much
	// of src that is. src is whole characters, and bytes that are not UTF-8. start says that src starts the stretch of
	// text, final that it ends there; then all of src is used.
	Apply(dst, src []byte, start, final bool) ([]byte, int)
}

// Chain is the steps for one text, with what each has to keep back.
type Chain struct {
	steps []Normalizer
	state []chainState // of each step
}

type chainState struct {
	pending, out []byte
	inside       bool // something of the stretch is after this step
}

func NewChain(steps []Normalizer) Chain { return Chain{steps, make([]chainState, len(steps))} }

// push gives the next part of a stretch to the steps, and returns what comes out after the last. It is valid until the
// next call, and as long as src.
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
		if ok = ok && len(s.pending) == 0; ok { // most text is in its form, and then need not be copied
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

// held is the number of bytes that steps keep back.
func (c *Chain) Held() (n int) {
	for i := range c.state {
		n += len(c.state[i].pending)
	}
	return n
}

// UnicodeForm is one of the Unicode normalization forms.
type UnicodeForm struct{ Form norm.Form }

func (f UnicodeForm) Apply(dst, src []byte, _, final bool) ([]byte, int) {
	n, ok := f.keeps(src, final)
	if ok {
		return append(dst, src[:n]...), n
	}
	return append(dst, f.Form.Bytes(src[:n])...), n
}

// keeps tells how much of src is settled, and whether it is in the form as it is.
func (f UnicodeForm) keeps(src []byte, final bool) (n int, ok bool) {
	n = len(src)
	if !final {
		n = max(f.Form.LastBoundary(src), 0)
	}
	return n, f.Form.QuickSpan(src[:n]) == n
}

// EachRune changes character by character. A byte that is not UTF-8 stays.
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

// Lowercase is the small letter of a capital one, without regard to the letters around it.
func Lowercase(dst []byte, r rune) []byte {
	if r == 'İ' { // the only letter whose small form is two characters
		return append(dst, "i\u0307"...)
	}
	return utf8.AppendRune(dst, unicode.ToLower(r))
}

// StripAccents drops marks, which stand after their letters in a decomposed form.
func StripAccents(dst []byte, r rune) []byte {
	if unicode.Is(unicode.M, r) {
		return dst
	}
	return utf8.AppendRune(dst, r)
}

// StripSpace drops white space at the ends.
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

// SqueezeSpaces drops spaces at the ends and makes one of several, as remove_extra_whitespaces of SentencePiece.
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

// Prepend puts a text before each stretch that is not empty.
type Prepend string

func (p Prepend) Apply(dst, src []byte, start, _ bool) ([]byte, int) {
	if start && len(src) > 0 {
		dst = append(dst, p...)
	}
	return append(dst, src...), len(src)
}

// ReplaceText puts a text in place of another one.
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
		// the longest end of src that may be the start of old
		for end = max(i, len(src)-len(p.Old)+1); end < len(src) && !bytes.HasPrefix(p.Old, src[end:]); end++ {
		}
	}
	return append(dst, src[i:end]...), end
}

// ReplaceMatches puts a text in place of all matches of a pattern.
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
