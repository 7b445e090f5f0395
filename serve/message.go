package serve

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/hippo-ssm/hippo/chat/template"
)

// message is a message of a chat, whose content may be in parts.
type message struct{ template.Message }

// UnmarshalJSON joins parts of text into one.
func (m *message) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return errors.New("found " + shorten(data) + ", want an object with role and content")
	}
	content, calls := fields["content"], fields["tool_calls"]
	parts, called := len(content) > 0 && content[0] == '[', len(calls) > 0 && string(calls) != "null"
	if parts {
		text, err := joinParts(content)
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

// joinParts is the text of a content that is a list of parts.
func joinParts(content []byte) (string, error) {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", errors.New("content: " + describe(err))
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" && p.Type != "input_text" && p.Type != "output_text" {
			return "", errors.New("content: found a part of the type " + shorten([]byte(p.Type)) + ", want text")
		}
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

// encodeChat is the ids of a conversation up to where the reply begins, and of the beginning of that.
func encodeChat(ctx context.Context, m *Model, param string, messages []message, begins string) ([]int32, error) {
	text, err := chatText(ctx, m, param, messages)
	if err != nil {
		return nil, err
	}
	ids, err := m.tok.Encode(nil, []byte(text+begins))
	if err != nil {
		return nil, wrong(param, "%v", err)
	}
	return ids, nil
}

// chatText is the text of a conversation up to where the reply begins.
func chatText(ctx context.Context, m *Model, param string, messages []message) (string, error) {
	return m.render(ctx, param, inputOf(messages))
}

// inputOf is what a template is given of messages.
func inputOf(messages []message) template.Input {
	in := template.Input{Messages: make([]template.Message, len(messages))}
	for i := range messages {
		in.Messages[i] = messages[i].Message
	}
	return in
}
