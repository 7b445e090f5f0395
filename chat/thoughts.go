package chat

import (
	"regexp"
	"strings"
)

// ThinkOpen and ThinkClose are the marks around a model's reasoning, as DeepSeek-R1 (arXiv:2501.12948) writes them.
const (
	ThinkOpen  = "<think>"
	ThinkClose = "</think>"
)

// thinkHalf ends prompts of RWKV-7 that ask for reasoning: the model writes the rest of the mark.
const thinkHalf = "<think"

var thinkMark = regexp.MustCompile(thinkHalf + `\b`)

// Thinking is a position in a reply: before, in or after the reasoning.
type Thinking uint8

const (
	Answers   Thinking = iota // outside reasoning
	MayThink                  // at the start, where reasoning may begin
	Thinks                    // in reasoning
	thinkMore                 // after thinkHalf
)

// Begun reports whether the reply is in its reasoning.
func (t Thinking) Begun() bool { return t == Thinks || t == thinkMore }

// HasReasoning reports whether a template has marks around reasoning.
func HasReasoning(source string) bool { return thinkMark.MatchString(source) }

// ThinkingAfter returns the position at which replies to a prompt start. source is the template that wrote the prompt.
func ThinkingAfter(source, prompt string) Thinking {
	prompt = strings.TrimSpace(prompt)
	switch {
	case !HasReasoning(source):
		return Answers
	case strings.HasSuffix(prompt, ThinkOpen):
		return Thinks
	case strings.HasSuffix(prompt, thinkHalf):
		return thinkMore
	}
	return MayThink
}

// Thoughts splits the reasoning at the start of a reply from the text after it, as the reply is generated.
type Thoughts struct {
	At   Thinking
	held string // not passed on yet, as it may be the start of a mark
	trim bool   // whether white space at the start is removed
}

// NewThoughts returns a splitter for a reply.
func NewThoughts(at Thinking) *Thoughts { return &Thoughts{At: at, trim: at == Thinks} }

// Push adds text and returns the text that can be passed on now. If last is set, that is all of it.
func (t *Thoughts) Push(text string, last bool) (thought, rest string) {
	t.held += text
	for {
		if t.trim {
			t.held = strings.TrimLeft(t.held, " \n")
			t.trim = t.held == ""
		}
		switch t.At {
		case MayThink:
			begin := strings.TrimLeft(t.held, " \n")
			after, thinks := strings.CutPrefix(begin, ThinkOpen)
			switch {
			case thinks:
				t.held, t.At, t.trim = after, Thinks, true
			case strings.HasPrefix(ThinkOpen, begin) && !last:
				return thought, rest
			default:
				t.At = Answers
			}
		case thinkMore:
			if t.held == "" {
				return thought, rest
			}
			t.held, t.At, t.trim = strings.TrimPrefix(t.held, ThinkOpen[len(thinkHalf):]), Thinks, true
		case Thinks:
			before, after, found := CutMark(t.held, ThinkClose, last)
			thought += before
			if t.held = after; !found {
				return thought, rest
			}
			t.At, t.trim = Answers, true
		default:
			rest, t.held = t.held, ""
			return thought, rest
		}
	}
}

// Trims reports whether white space at the start of the following text is dropped.
func (t *Thoughts) Trims() bool { return t.trim }

// CutMark cuts a text at a mark, and reports whether the mark is there. Unless last is set, text at the end that may be
// the start of the mark is returned in after.
func CutMark(text, mark string, last bool) (before, after string, found bool) {
	if mark != "" {
		if before, after, found = strings.Cut(text, mark); found {
			return before, after, true
		}
	}
	keep := 0
	for n := min(len(mark)-1, len(text)); n > 0 && !last; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			keep = n
			break
		}
	}
	return text[:len(text)-keep], text[len(text)-keep:], false
}
