package reply

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Message is a message of a chat, whose content may be in parts.
type Message struct{ template.Message }

// NewMessage returns a message with a text.
func NewMessage(role, text string) Message { return Message{template.Text(role, text)} }

// Schema returns the schema of a message as clients send it. Templates may read further fields.
func (*Message) Schema() request.Schema {
	text, object := request.TextSchema(), request.ListSchema(request.Schema{"type": "object"})
	return request.Schema{"type": "object", "required": []string{"role"}, "properties": request.Schema{
		"role": text, "content": request.AnyOf(text, object, request.Schema{"type": "null"}), "tool_calls": object,
		"tool_call_id": text, "name": text, "reasoning_content": text,
	}}
}

// UnmarshalJSON joins text parts into one text.
func (m *Message) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return errors.New("found " + request.Shorten(data) + ", want an object with role and content")
	}
	for _, r := range messageForeign {
		if raw, there := fields[r.Name()]; there && !r.Harmless(raw) {
			return errors.New(r.Name() + ": found " + request.Shorten(raw) + ", want " + r.Want())
		}
	}
	content, calls := fields["content"], fields["tool_calls"]
	parts, called := len(content) > 0 && content[0] == '[', len(calls) > 0 && string(calls) != "null"
	if parts {
		text, err := JoinParts(content)
		if err != nil {
			return err
		}
		if fields["content"], err = json.Marshal(text); err != nil {
			return err
		}
	}
	if called {
		if err := readCalls(fields); err != nil {
			return err
		}
	}
	if parts || called {
		var err error
		if data, err = json.Marshal(fields); err != nil {
			return err
		}
	}
	return m.Message.UnmarshalJSON(data)
}

// JoinParts returns the text of a content given as a list of parts.
func JoinParts(content []byte) (string, error) {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", errors.New("content: " + request.DescribeJSON(err))
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" && p.Type != "input_text" && p.Type != "output_text" {
			return "", errors.New("content: found a part of the type " + request.Shorten([]byte(p.Type)) +
				", want text")
		}
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

// EncodeChat returns the ids of a conversation up to the start of the reply, including begins, the start of its text.
func EncodeChat(ctx context.Context, m *host.Model, param string, messages []Message, begins string) ([]int32, error) {
	text, err := ChatText(ctx, m, param, messages)
	if err != nil {
		return nil, err
	}
	ids, err := m.Tokenizer.Encode(nil, []byte(text+begins))
	if err != nil {
		return nil, request.Invalid(param, "%v", err)
	}
	return ids, nil
}

// ChatText returns the text of a conversation up to the start of the reply.
func ChatText(ctx context.Context, m *host.Model, param string, messages []Message) (string, error) {
	return m.Render(ctx, param, InputOf(messages))
}

// InputOf returns the input of a template for messages.
func InputOf(messages []Message) template.Input {
	in := template.Input{Messages: make([]template.Message, len(messages))}
	for i := range messages {
		in.Messages[i] = messages[i].Message
	}
	return in
}
