package serve

import (
	"encoding/json"
	"maps"
	"strings"
)

// said is what is new of a reply: what the model thinks, what it says, and the functions that it calls.
type said struct {
	reasoning, content string
	calls              []toolCall
}

// add puts more behind what there is.
func (s *said) add(more said) {
	s.reasoning += more.reasoning
	s.content += more.content
	s.calls = append(s.calls, more.calls...)
}

func (s *said) some() bool { return s.reasoning+s.content != "" || len(s.calls) > 0 }

// withEffort adds to the variables of a template how much a model is to think.
func withEffort(more map[string]json.RawMessage, effort string) map[string]json.RawMessage {
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

// splitter takes the text of a reply apart as it comes.
type splitter struct {
	d      *dialog
	mode   splitMode
	held   string // what is not told yet, as it may be the beginning of a mark
	trim   bool   // white space at the beginning is left out
	lead   string // white space that is left out if a call follows
	told   bool   // some content
	called int    // functions so far
}

type splitMode uint8

const (
	atStart splitMode = iota
	inThought
	inContent
	inCalls
)

// split returns a splitter of a reply.
func (d *dialog) split() *splitter {
	s := &splitter{d: d, mode: inContent}
	switch {
	case d.begun:
		s.mode, s.trim = inThought, true
	case d.reasoning:
		s.mode = atStart
	}
	return s
}

// push takes the next text and returns what has become certain by it: all, where it is the last.
func (s *splitter) push(text string, last bool) (out said) {
	s.held += text
	for s.step(text, last, &out) {
	}
	return out
}

// step takes the next part of what is held. It reports whether there may be another.
func (s *splitter) step(text string, last bool, out *said) bool {
	if s.trim {
		s.held = strings.TrimLeft(s.held, " \n")
		s.trim = s.held == ""
	}
	switch s.mode {
	case atStart:
		begin := strings.TrimLeft(s.held, " \n")
		if after, ok := strings.CutPrefix(begin, thinkOpen); ok {
			s.held, s.mode, s.trim = after, inThought, true
			return true
		}
		if strings.HasPrefix(thinkOpen, begin) && !last {
			return false
		}
		s.mode = inContent
		return true
	case inThought:
		found := s.upTo(thinkClose, last, &out.reasoning)
		if found {
			s.mode, s.trim = inContent, true
		}
		return found
	case inCalls:
		return s.calls(text, last, out)
	}
	open := ""
	if s.d.calls != nil {
		open = s.d.calls.open
	}
	content := s.lead
	found := s.upTo(open, last, &content)
	if s.lead = ""; open != "" && !s.told && strings.TrimSpace(content) == "" && !(last && !found) {
		s.lead, content = content, ""
	}
	s.told = s.told || content != ""
	out.content += content
	if found {
		s.mode = inCalls
	}
	return found
}

// upTo tells what is held up to a mark, which it reports. What may be the beginning of the mark is held back.
func (s *splitter) upTo(mark string, last bool, to *string) bool {
	if mark != "" {
		if before, after, ok := strings.Cut(s.held, mark); ok {
			*to += before
			s.held = after
			return true
		}
	}
	keep := 0
	for n := min(len(mark)-1, len(s.held)); n > 0 && !last; n-- {
		if strings.HasSuffix(s.held, mark[:n]) {
			keep = n
			break
		}
	}
	at := len(s.held) - keep
	*to += s.held[:at]
	s.held = s.held[at:]
	return false
}

// calls tells the calls that are held. What is no call is told as content, with its mark.
func (s *splitter) calls(text string, last bool, out *said) bool {
	f := s.d.calls
	whole := strings.Contains(s.held, f.close)
	if f.close == "" { // then a bracket may be the end
		whole = strings.ContainsAny(text, "]}")
	}
	if !whole && !last {
		return false
	}
	calls, rest, err := f.read(s.held, s.d.tools, last)
	if err == errMore && !last {
		return false
	}
	s.mode = inContent
	if err != nil {
		out.content += s.lead + f.open
		s.lead, s.told = "", true
		return true
	}
	s.lead = ""
	for i := range calls {
		index := s.called
		calls[i].Index = &index
		s.called++
	}
	out.calls = append(out.calls, calls...)
	s.held, s.trim = rest, true
	return true
}
