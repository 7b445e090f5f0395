package chat

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hippo-ssm/hippo/chat/template"
)

// Call is a call of a function in a reply.
type Call struct {
	ID, Name  string
	Arguments string // a JSON object
}

// Tools are functions that a model may call.
type Tools struct {
	Functions []json.RawMessage // as the template takes them
	// Split returns a function that splits a reply, as it comes, into its text and calls.
	Split func() func(piece string, last bool) (text string, calls []Call)
	// Said returns the message for a reply with calls.
	Said func(text, thought string, calls []Call) (template.Message, error)
	// Told, if not nil, is called with each call.
	Told func(c Call) error
	// Do, if not nil, returns the result of a call, with which the model continues. Without it, calls end a reply.
	Do func(ctx context.Context, c Call) (result string, err error)
}

// maxRounds is the number of replies in a row in which a model may call functions.
const maxRounds = 32

// called adds a reply with calls, and their results, to the messages. It reports whether the model continues.
func (c *Chat) called(ctx context.Context, text, thought string, calls []Call) (bool, error) {
	said, err := c.Tools.Said(text, thought, calls)
	if err != nil {
		return false, err
	}
	c.messages = append(c.messages, said)
	for _, call := range calls {
		if c.Tools.Told != nil {
			if err := c.Tools.Told(call); err != nil {
				return false, err
			}
		}
		if c.Tools.Do == nil {
			continue
		}
		result, err := c.Tools.Do(ctx, call)
		if err != nil {
			return false, fmt.Errorf("%s: %w", call.Name, err)
		}
		data, err := json.Marshal(map[string]string{"role": "tool", "name": call.Name, "tool_call_id": call.ID,
			"content": result})
		if err != nil {
			return false, err
		}
		var m template.Message
		if err := m.UnmarshalJSON(data); err != nil {
			return false, err
		}
		c.messages = append(c.messages, m)
	}
	return c.Tools.Do != nil, nil
}
