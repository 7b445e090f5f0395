package reply

import (
	"encoding/json"
	"maps"
	"strings"
)

// Delta is a new part of a reply: reasoning, content and function calls.
type Delta struct {
	Reasoning, Content string
	Calls              []ToolCall
}

// Add appends another delta.
func (s *Delta) Add(more Delta) {
	s.Reasoning += more.Reasoning
	s.Content += more.Content
	s.Calls = append(s.Calls, more.Calls...)
}

func (s *Delta) Some() bool { return s.Reasoning+s.Content != "" || len(s.Calls) > 0 }

// WithEffort adds the reasoning effort to the variables of a template.
func WithEffort(more map[string]json.RawMessage, effort string) map[string]json.RawMessage {
	if effort == "" {
		return more
	}
	thinks := json.RawMessage("true")
	if effort == "none" {
		thinks = json.RawMessage("false")
	}
	all := map[string]json.RawMessage{
		"reasoning_effort": json.RawMessage(quotedKey(effort)), "enable_thinking": thinks, "thinking": thinks,
	}
	maps.Copy(all, more)
	return all
}

// Splitter splits the text of a reply as it comes.
type Splitter struct {
	d      *Dialog
	Mode   splitMode
	Held   string // not passed on yet, as it may be the start of a mark
	Trim   bool   // white space at the start is removed
	lead   string // white space that is removed if a call follows
	told   bool   // some content was returned
	Called int    // number of function calls so far
}

type splitMode uint8

const (
	atStart splitMode = iota
	InThought
	InContent
	inCalls
)

// Split returns a splitter of a reply.
func (d *Dialog) Split() *Splitter {
	s := &Splitter{d: d, Mode: InContent}
	switch {
	case d.begun:
		s.Mode, s.Trim = InThought, true
	case d.Reasoning:
		s.Mode = atStart
	}
	return s
}

// Push adds text and returns what has become certain: everything, if it is the last.
func (s *Splitter) Push(text string, last bool) (out Delta) {
	s.Held += text
	for s.step(text, last, &out) {
	}
	return out
}

// step splits off the next part of the buffered text. It reports whether there may be another.
func (s *Splitter) step(text string, last bool, out *Delta) bool {
	if s.Trim {
		s.Held = strings.TrimLeft(s.Held, " \n")
		s.Trim = s.Held == ""
	}
	switch s.Mode {
	case atStart:
		begin := strings.TrimLeft(s.Held, " \n")
		if after, ok := strings.CutPrefix(begin, thinkOpen); ok {
			s.Held, s.Mode, s.Trim = after, InThought, true
			return true
		}
		if strings.HasPrefix(thinkOpen, begin) && !last {
			return false
		}
		s.Mode = InContent
		return true
	case InThought:
		found := s.upTo(thinkClose, last, &out.Reasoning)
		if found {
			s.Mode, s.Trim = InContent, true
		}
		return found
	case inCalls:
		return s.calls(text, last, out)
	}
	open := ""
	if s.d.Calls != nil {
		open = s.d.Calls.open
	}
	content := s.lead
	found := s.upTo(open, last, &content)
	if s.lead = ""; open != "" && !s.told && strings.TrimSpace(content) == "" && !(last && !found) {
		s.lead, content = content, ""
	}
	s.told = s.told || content != ""
	out.Content += content
	if found {
		s.Mode = inCalls
	}
	return found
}

// upTo passes on the buffered text up to a mark, and reports whether it found the mark. It keeps what may be the start
// of the mark.
func (s *Splitter) upTo(mark string, last bool, to *string) bool {
	if mark != "" {
		if before, after, ok := strings.Cut(s.Held, mark); ok {
			*to += before
			s.Held = after
			return true
		}
	}
	keep := 0
	for n := min(len(mark)-1, len(s.Held)); n > 0 && !last; n-- {
		if strings.HasSuffix(s.Held, mark[:n]) {
			keep = n
			break
		}
	}
	at := len(s.Held) - keep
	*to += s.Held[:at]
	s.Held = s.Held[at:]
	return false
}

// calls passes on the buffered calls. Text that is not a call is passed on as content, with its mark.
func (s *Splitter) calls(text string, last bool, out *Delta) bool {
	f := s.d.Calls
	whole := strings.Contains(s.Held, f.close)
	if f.close == "" { // then a bracket may be the end
		whole = strings.ContainsAny(text, "]}")
	}
	if !whole && !last {
		return false
	}
	calls, rest, err := f.read(s.Held, s.d.tools, last)
	if err == errMore && !last {
		return false
	}
	s.Mode = InContent
	if err != nil {
		out.Content += s.lead + f.open
		s.lead, s.told = "", true
		return true
	}
	s.lead = ""
	for i := range calls {
		index := s.Called
		calls[i].Index = &index
		s.Called++
	}
	out.Calls = append(out.Calls, calls...)
	s.Held, s.Trim = rest, true
	return true
}
