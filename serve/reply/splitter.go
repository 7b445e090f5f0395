package reply

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/chat"
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

// Splitter splits the text of a reply into its parts as it arrives.
type Splitter struct {
	d        *Dialog
	thoughts *chat.Thoughts
	held     string // buffered text that may be the start of a mark
	inCalls  bool
	trim     bool   // white space at the start is removed
	lead     string // white space that is removed if a call follows
	told     bool   // some content was returned
	Called   int    // number of function calls so far
}

// Split returns a splitter of a reply.
func (d *Dialog) Split() *Splitter { return &Splitter{d: d, thoughts: chat.NewThoughts(d.Thinking)} }

// Thinks reports whether the reply is in its reasoning.
func (s *Splitter) Thinks() bool { return s.thoughts.At.Begun() }

// Settled reports whether all text so far has been passed on, and content or the start of a call follows.
func (s *Splitter) Settled() bool { return s.thoughts.At == chat.Answers && !s.inCalls && s.held == "" }

// Trims reports whether white space at the start of the following text is dropped.
func (s *Splitter) Trims() bool { return s.trim || s.thoughts.Trims() }

// Push adds text and returns the parts that are certain by now. If last is set, it returns everything.
func (s *Splitter) Push(text string, last bool) (out Delta) {
	out.Reasoning, text = s.thoughts.Push(text, last)
	if s.thoughts.At != chat.Answers {
		return out
	}
	s.held += text
	for s.step(text, last, &out) {
	}
	return out
}

// step splits off the next part of the buffered text. It reports whether there may be another one.
func (s *Splitter) step(text string, last bool, out *Delta) bool {
	if s.trim {
		s.held = strings.TrimLeft(s.held, " \n")
		s.trim = s.held == ""
	}
	if s.Called > 0 && s.d.single { // text after the only call is dropped
		s.held = ""
		return false
	}
	if s.inCalls {
		return s.calls(text, last, out)
	}
	open := ""
	if s.d.Calls != nil {
		open = s.d.Calls.open
	}
	before, after, found := chat.CutMark(s.held, open, last)
	content := s.lead + before
	s.held = after
	if s.lead = ""; open != "" && !s.told && strings.TrimSpace(content) == "" && !(last && !found) {
		s.lead, content = content, ""
	}
	s.told = s.told || content != ""
	out.Content += content
	s.inCalls = found
	return found
}

// calls passes on the buffered calls. Text that is not a call is passed on as content, with its mark.
func (s *Splitter) calls(text string, last bool, out *Delta) bool {
	f := s.d.Calls
	whole := strings.Contains(s.held, f.close)
	if f.close == "" { // the end of the list or object may be the end of the calls
		whole = strings.ContainsAny(text, "]}")
	}
	if !whole && !last {
		return false
	}
	calls, rest, err := f.read(s.held, s.d.tools, last)
	if err == errMore && !last {
		return false
	}
	s.inCalls = false
	if err != nil {
		out.Content += s.lead + f.open
		s.lead, s.told = "", true
		return true
	}
	if s.lead = ""; s.d.single {
		calls = calls[:min(1, len(calls))]
	}
	for i := range calls {
		index := s.Called
		if slices.ContainsFunc(s.d.tools, func(t tool) bool {
			return t.Type == customType && t.Function.Name == calls[i].Function.Name
		}) {
			calls[i] = calls[i].asCustom()
		}
		calls[i].Index = &index
		s.Called++
	}
	out.Calls = append(out.Calls, calls...)
	s.held, s.trim = rest, true
	return true
}
