package reply

import (
	"encoding/json"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// ToolRole is the role of a message with the output of a function.
const ToolRole = "tool"

// Draft is a message for a template, made of the parts that a dialect has: a text, reasoning before it, calls after it,
// or the output of a call.
type Draft struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []ToolCall `json:"tool_calls,omitempty"`
	Answers   string     `json:"tool_call_id,omitempty"` // id of the call whose output this is
	Name      string     `json:"name,omitempty"`         // of the called function
}

// DraftOf returns the draft of a message that a template received.
func DraftOf(m Message) Draft {
	d := Draft{Role: m.Role(), Content: m.Content()}
	if d.Role != host.AssistantRole && d.Role != ToolRole {
		return d
	}
	var more struct {
		Reasoning string `json:"reasoning_content"`
		Answers   string `json:"tool_call_id"`
	}
	if data, err := json.Marshal(m.Message); err == nil && json.Unmarshal(data, &more) == nil {
		d.Reasoning, d.Answers = more.Reasoning, more.Answers
	}
	d.Calls = m.Calls()
	return d
}

// Message returns the message for the template.
func (d *Draft) Message() (m Message, err error) {
	if d.Reasoning == "" && len(d.Calls) == 0 && d.Answers == "" {
		return NewMessage(d.Role, d.Content), nil
	}
	data, err := json.Marshal(d)
	if err != nil {
		return m, err
	}
	err = m.UnmarshalJSON(data)
	return m, err
}

// MessagesOf returns the messages of drafts that follow the messages before. An output of a function gets the
// function's name from its call. Errors name the field param.
func MessagesOf(param string, all []Draft, before []Message) (messages []Message, err error) {
	names, sought := map[string]string{}, false
	for _, d := range all {
		if d.Answers != "" && !sought {
			sought = true
			for _, m := range before {
				if m.Role() == host.AssistantRole {
					noteCalls(names, m.Calls())
				}
			}
		}
		if d.Answers != "" {
			name, ok := names[d.Answers]
			if !ok {
				return nil, request.Invalid(param, "found an output of the call %.60q, want one of a call before it",
					d.Answers)
			}
			d.Name = name
		}
		noteCalls(names, d.Calls)
		m, err := d.Message()
		if err != nil {
			return nil, request.Invalid(param, "%v", err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

func noteCalls(names map[string]string, calls []ToolCall) {
	for _, c := range calls {
		names[c.ID] = c.Function.Name
	}
}
