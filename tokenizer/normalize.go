package tokenizer

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer is one step of the changes that a tokenizer makes to a text before it looks for words.
type normalizer interface {
	// apply appends to dst what the beginning of src becomes that nothing behind src can change, and returns how much
	// of src that is. src is whole characters, and bytes that are not UTF-8. start says that src begins the stretch of
	// text, final that it ends there; then all of src is used.
	apply(dst, src []byte, start, final bool) ([]byte, int)
}

// normalizerChain is the steps for one text, with what each has to keep back.
type normalizerChain struct {
	steps []normalizer
	state []struct {
		pending, out []byte
		inside       bool // something of the stretch is behind this step
	}
}

func newChain(steps []normalizer) normalizerChain {
	c := normalizerChain{steps: steps}
	c.state = append(c.state, make([]struct {
		pending, out []byte
		inside       bool
	}, len(steps))...)
	return c
}

// push gives the next part of a stretch to the steps, and returns what comes out behind the last. It is valid until the
// next call, and as long as src.
func (c *normalizerChain) push(src []byte, final bool) []byte {
	for i, step := range c.steps {
		s := &c.state[i]
		in := src
		if len(s.pending) > 0 {
			s.pending = append(s.pending, src...)
			in = s.pending
		}
		out, used := in, 0
		form, ok := step.(unicodeForm)
		if ok = ok && len(s.pending) == 0; ok { // most text is in its form, and then need not be copied
			used, ok = form.keeps(in, final)
			out = in[:used]
		}
		if !ok {
			out, used = step.apply(s.out[:0], in, !s.inside, final)
			s.out = out
		}
		s.inside = !final && (s.inside || used > 0)
		s.pending = append(s.pending[:0], in[used:]...)
		src = out
	}
	return src
}

// held is the number of bytes that steps keep back.
func (c *normalizerChain) held() (n int) {
	for i := range c.state {
		n += len(c.state[i].pending)
	}
	return n
}

// unicodeForm is one of the Unicode normalization forms.
type unicodeForm struct{ form norm.Form }

func (f unicodeForm) apply(dst, src []byte, _, final bool) ([]byte, int) {
	n, ok := f.keeps(src, final)
	if ok {
		return append(dst, src[:n]...), n
	}
	return append(dst, f.form.Bytes(src[:n])...), n
}

// keeps tells how much of src is settled, and whether it is in the form as it is.
func (f unicodeForm) keeps(src []byte, final bool) (n int, ok bool) {
	n = len(src)
	if !final {
		n = max(f.form.LastBoundary(src), 0)
	}
	return n, f.form.QuickSpan(src[:n]) == n
}

// eachRune changes character by character. A byte that is not UTF-8 stays.
type eachRune func(dst []byte, r rune) []byte

func (f eachRune) apply(dst, src []byte, _, _ bool) ([]byte, int) {
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

// lowercase is the small letter of a capital one, without regard to the letters around it.
func lowercase(dst []byte, r rune) []byte {
	if r == 'İ' { // the only letter whose small form is two characters
		return append(dst, "i\u0307"...)
	}
	return utf8.AppendRune(dst, unicode.ToLower(r))
}

// stripAccents drops marks, which stand behind their letters in a decomposed form.
func stripAccents(dst []byte, r rune) []byte {
	if unicode.Is(unicode.M, r) {
		return dst
	}
	return utf8.AppendRune(dst, r)
}

// stripSpace drops white space at the ends.
type stripSpace struct{ left, right bool }

func (s stripSpace) apply(dst, src []byte, start, final bool) ([]byte, int) {
	text := src
	if s.left && start {
		text = bytes.TrimLeftFunc(text, isSpace)
		if len(text) == 0 && !final {
			return dst, 0
		}
	}
	kept := text
	if s.right {
		kept = bytes.TrimRightFunc(text, isSpace)
	}
	if final {
		return append(dst, kept...), len(src)
	}
	return append(dst, kept...), len(src) - len(text) + len(kept)
}

// squeezeSpaces drops spaces at the ends and makes one of several, as remove_extra_whitespaces of SentencePiece.
type squeezeSpaces struct{}

func (squeezeSpaces) apply(dst, src []byte, start, final bool) ([]byte, int) {
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

// prepend puts a text before each stretch that is not empty.
type prepend string

func (p prepend) apply(dst, src []byte, start, _ bool) ([]byte, int) {
	if start && len(src) > 0 {
		dst = append(dst, p...)
	}
	return append(dst, src...), len(src)
}

// replaceText puts a text in the place of another one.
type replaceText struct{ old, new []byte }

func (p replaceText) apply(dst, src []byte, _, final bool) ([]byte, int) {
	i := 0
	for {
		n := bytes.Index(src[i:], p.old)
		if n < 0 {
			break
		}
		dst = append(append(dst, src[i:i+n]...), p.new...)
		i += n + len(p.old)
	}
	end := len(src)
	if !final {
		// the longest end of src that may be the beginning of old
		for end = max(i, len(src)-len(p.old)+1); end < len(src) && !bytes.HasPrefix(p.old, src[end:]); end++ {
		}
	}
	return append(dst, src[i:end]...), end
}

// replaceMatches puts a text in the place of all matches of a pattern.
type replaceMatches struct {
	pattern *dfa
	new     []byte
}

func (p replaceMatches) apply(dst, src []byte, _, final bool) ([]byte, int) {
	for i := 0; i < len(src); {
		end, settled := p.pattern.match(src, i, final)
		if !settled {
			return dst, i
		}
		if end > i {
			dst = append(dst, p.new...)
			i = end
			continue
		}
		_, size := utf8.DecodeRune(src[i:])
		dst = append(dst, src[i:i+size]...)
		i += size
	}
	return dst, len(src)
}
