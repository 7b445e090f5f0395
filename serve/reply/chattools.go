package reply

import (
	"encoding/json"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// ChatTools returns the functions of a chat outside of a server. list is the value of tools in a request.
func ChatTools(list []byte, s *chat.Settings, tok tokenizer.Tokenizer) (*chat.Tools, error) {
	var q ToolRequest
	if err := json.Unmarshal(list, &q.Tools); err != nil {
		return nil, request.Invalid("tools", "%s, want a list of functions", request.DescribeJSON(err))
	}
	d, err := &Dialog{}, error(nil)
	var shown []json.RawMessage
	if d.tools, shown, _, err = q.read(); err != nil {
		return nil, err
	}
	m := &host.Model{ModelOptions: host.ModelOptions{Name: "the model", Settings: s, Tokenizer: tok}}
	if err := d.setForm(m); err != nil {
		return nil, err
	}
	said := func(text, thought string, calls []chat.Call) (template.Message, error) {
		return d.said(s, text, thought, calls)
	}
	return &chat.Tools{Functions: shown, Said: said, Split: func() func(string, bool) (string, []chat.Call) {
		splitter := d.Split()
		return func(piece string, last bool) (text string, calls []chat.Call) {
			x := splitter.Push(piece, last)
			for _, c := range x.Calls {
				calls = append(calls, chat.Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
			}
			return x.Content, calls
		}
	}}, nil
}

// setForm sets the form in which a model calls the tools.
func (d *Dialog) setForm(m *host.Model) error {
	d.Calls = callFormOf(m)
	switch {
	case len(d.tools) == 0:
	case !UsesTools.MatchString(m.Settings.Source):
		return request.Invalid("tools", "found %d, want none: the chat template of %s knows no tools", len(d.tools),
			m.Name)
	case d.Calls == nil:
		return request.Invalid("tools", "found %d, want none: the chat template of %s does not tell in what form the "+
			"model calls them", len(d.tools), m.Name)
	}
	return nil
}

// said returns a message of the model with calls. If the template does not write calls, they become part of the text.
func (d *Dialog) said(s *chat.Settings, text, thought string, calls []chat.Call) (template.Message, error) {
	draft := Draft{Role: host.AssistantRole, Content: text, Reasoning: thought}
	for _, c := range calls {
		draft.Calls = append(draft.Calls, ToolCall{ID: c.ID, Function: FunctionCall{c.Name, c.Arguments}})
	}
	if !writesCalls.MatchString(s.Source) {
		draft.Content, draft.Calls = text+d.Calls.text(draft.Calls), nil
	}
	m, err := draft.Message()
	return m.Message, err
}
