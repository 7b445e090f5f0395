package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// responseInput is the input of a request: a list of items, or one text of the user.
type responseInput []inputFields

// drafts are the messages that the items form.
type drafts []draft

// draft is a message for the template. The items of a reply (reasoning, text, calls) form one message.
type draft struct {
	reply.Draft
	thoughts []string // the parts of Reasoning
}

// Types of items.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemOutput    = "function_call_output"
	itemCustom    = "custom_tool_call"
	itemAnswer    = "custom_tool_call_output"
	itemReference = "item_reference"

	itemCompaction = "compaction"
)

// keptItems lists the types of items that a conversation can have.
const keptItems = itemMessage + ", " + itemReasoning + ", " + itemCall + ", " + itemOutput + ", " + itemCustom + ", " +
	itemAnswer

const inputForms = "a string or a list of items"

func (q *responseInput) UnmarshalJSON(data []byte) error {
	if request.IsText(data) {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*q = responseInput{{Role: host.UserRole, Content: bytes.Clone(data)}}
		return nil
	}
	var items []json.RawMessage
	if err := request.UnmarshalList(data, &items, inputForms); err != nil {
		return err
	}
	*q = make(responseInput, len(items))
	for i, data := range items {
		if err := json.Unmarshal(data, &(*q)[i]); err != nil {
			return fmt.Errorf("%d: %s", i, request.DescribeJSON(err))
		}
	}
	return nil
}

// drafts returns the messages of the items. from resolves references.
func (q responseInput) drafts(from *references) (out []reply.Draft, err error) {
	var all drafts
	var thoughts []string // reasoning of the following reply
	for i, item := range q {
		if item.refers() {
			if item, err = from.item(i, item.ID); err != nil {
				return nil, err
			}
		}
		if item.Type == itemCompaction {
			if err := all.expand(from, i, item.Encrypted); err != nil {
				return nil, err
			}
			thoughts = nil
			continue
		}
		if thoughts, err = all.add(&item, thoughts); err != nil {
			return nil, request.Invalid(from.param, "%d: %v", i, err)
		}
	}
	for _, d := range all {
		d.Reasoning = strings.Join(d.thoughts, "")
		out = append(out, d.Draft)
	}
	return out, nil
}

// inputFields are the fields of an item of any type.
type inputFields struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
	Encrypted string          `json:"encrypted_content"`
}

// add adds an item. thoughts is reasoning that belongs to the next message. add returns the reasoning that still has
// none.
func (q *drafts) add(item *inputFields, thoughts []string) ([]string, error) {
	switch item.Type {
	case "", itemMessage:
		d, err := item.message()
		if d.Role == host.AssistantRole {
			d.thoughts = thoughts
		}
		*q = append(*q, d)
		return nil, err
	case itemReasoning:
		more, err := item.thoughts()
		return append(thoughts, more...), err
	case itemCall, itemCustom:
		call, err := item.call()
		if n := len(*q); n == 0 || (*q)[n-1].Role != host.AssistantRole {
			*q = append(*q, draft{Draft: reply.Draft{Role: host.AssistantRole}})
		}
		d := &(*q)[len(*q)-1]
		d.thoughts = append(d.thoughts, thoughts...)
		d.Calls = append(d.Calls, call)
		return nil, err
	case itemOutput, itemAnswer:
		text, err := textOf("output", item.Output)
		if err == nil && item.CallID == "" {
			err = errors.New("call_id: found none, want that of a call")
		}
		*q = append(*q, draft{Draft: reply.Draft{Role: reply.ToolRole, Content: text, Answers: item.CallID}})
		return nil, err
	}
	return nil, fmt.Errorf("found an item of the type %.40q, want %s, %s or %s", item.Type, keptItems, itemReference,
		itemCompaction)
}

// message returns the message of an item.
func (item *inputFields) message() (d draft, err error) {
	switch d.Role = item.Role; item.Role {
	case "developer":
		d.Role = host.SystemRole
	case host.SystemRole, host.UserRole, host.AssistantRole:
	default:
		return d, fmt.Errorf("role: found %.40q, want user, assistant, system or developer", item.Role)
	}
	d.Content, err = textOf("content", item.Content)
	return d, err
}

// textOf returns the text of a field, which may be a list of parts.
func textOf(field string, data json.RawMessage) (text string, err error) {
	switch {
	case request.IsText(data):
		err = json.Unmarshal(data, &text)
	case bytes.HasPrefix(data, []byte{'['}):
		text, err = reply.JoinParts(data)
	default:
		err = fmt.Errorf("%s: found %s, want a string or a list of parts", field, request.Shorten(data))
	}
	return text, err
}

// thoughts returns the reasoning of an item. It is empty for an item with only a summary: a model cannot continue from
// that.
func (item *inputFields) thoughts() (all []string, err error) {
	if len(item.Content) == 0 {
		return nil, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(item.Content, &parts); err != nil {
		return nil, errors.New("content: " + request.DescribeJSON(err))
	}
	for _, p := range parts {
		if p.Type != partReasoning {
			return nil, fmt.Errorf("content: found a part of the type %.40q, want %s", p.Type, partReasoning)
		}
		all = append(all, p.Text)
	}
	return all, nil
}

// call returns the function call of an item.
func (item *inputFields) call() (reply.ToolCall, error) {
	arguments := bytes.TrimSpace([]byte(item.Arguments))
	switch {
	case item.CallID == "":
		return reply.ToolCall{}, errors.New("call_id: found none, want one")
	case !reply.ToolName.MatchString(item.Name):
		return reply.ToolCall{}, fmt.Errorf("name: found %.140q, want 1 to 128 letters, digits, dots, _ and -",
			item.Name)
	case item.Type == itemCustom:
		return reply.NewCustomCall(item.CallID, item.Name, item.Input), nil
	case len(arguments) > 0 && (arguments[0] != '{' || !json.Valid(arguments)):
		return reply.ToolCall{}, fmt.Errorf("arguments: found %s, want a JSON object", request.Shorten(arguments))
	}
	return reply.ToolCall{
		ID: item.CallID, Type: "function", Function: reply.FunctionCall{Name: item.Name, Arguments: string(arguments)},
	}, nil
}

// nested returns the tools of a request in the form of chat completions.
func nested(flat []json.RawMessage) (all []json.RawMessage, err error) {
	type function struct {
		Name        json.RawMessage `json:"name,omitempty"`
		Description json.RawMessage `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
		Strict      json.RawMessage `json:"strict,omitempty"`
		Format      json.RawMessage `json:"format,omitempty"` // of a custom tool
	}
	for i, raw := range flat {
		var f struct {
			Type json.RawMessage `json:"type"`
			function
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			return nil, request.Invalid("tools", "element %d: %s", i, request.DescribeJSON(err))
		}
		one := struct {
			Type     json.RawMessage `json:"type,omitempty"`
			Function *function       `json:"function,omitempty"`
			Custom   *function       `json:"custom,omitempty"`
		}{Type: f.Type}
		if string(f.Type) == `"custom"` {
			one.Custom = &f.function
		} else {
			f.Format, one.Function = nil, &f.function
		}
		data, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}
