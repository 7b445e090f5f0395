package reply

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"regexp"
	"slices"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// ToolRequest has the fields of a request about tools.
type ToolRequest struct {
	Tools    []json.RawMessage `json:"tools"`
	Choice   json.RawMessage   `json:"tool_choice"`
	Parallel *bool             `json:"parallel_tool_calls"`
}

// toolChoice is the value of tool_choice.
type toolChoice struct {
	mode  string
	named []string // types and names of the functions that may be called, nil for any
}

// tool is a function that a model may call, or a custom tool.
type tool struct {
	Type     string     `json:"type"` // "" for a function
	Custom   customTool `json:"custom"`
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Strict     bool            `json:"strict"`
	} `json:"function"`
}

// The modes of tool_choice.
const (
	choiceAuto     = "auto"
	choiceNone     = "none"
	choiceRequired = "required"
)

// maxTools is the maximum number of functions in a request.
const maxTools = 128

var ToolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// must reports whether a reply must be a call.
func (c toolChoice) must() bool { return c.mode == choiceRequired }

// one reports whether a reply must be a call of one function.
func (c toolChoice) one() bool { return c.must() && len(c.named) == 1 }

// read checks the tools of a request and returns those that may be called, or none if calls are not allowed. shown has
// all tools as templates see them.
func (q *ToolRequest) read() (all []tool, shown []json.RawMessage, choice toolChoice, err error) {
	if choice, err = q.readChoice(); err != nil {
		return nil, nil, choice, err
	}
	var c request.Checks
	c.That(len(q.Tools) <= maxTools, "tools", "found %d, want at most %d", len(q.Tools), maxTools)
	c.That(len(q.Tools) > 0 || !choice.must(), "tool_choice", "found a call that must be, want tools with it")
	found := map[string]bool{}
	for i, raw := range q.Tools {
		if c.Err != nil {
			break
		}
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, nil, choice, request.Invalid("tools", "element %d: %s", i, request.DescribeJSON(err))
		}
		if t.Type == customType {
			if raw, err = t.asFunction(i); err != nil {
				return nil, nil, choice, err
			}
		} else {
			c.That(t.Type == "" || t.Type == functionType, "tools",
				"element %d: found the type %.40q, want function or custom", i, t.Type)
		}
		shown = append(shown, raw)
		c.That(ToolName.MatchString(t.Function.Name), "tools",
			"element %d: found the name %.70q, want 1 to 128 letters, digits, _, - and .", i, t.Function.Name)
		if p := t.Function.Parameters; len(p) == 0 || string(p) == "null" {
			t.Function.Parameters = json.RawMessage(`{"type":"object","additionalProperties":false}`)
		}
		name := cmp.Or(t.Type, functionType) + " " + t.Function.Name
		found[name] = true
		if choice.named == nil || slices.Contains(choice.named, name) {
			all = append(all, t)
		}
	}
	for _, name := range choice.named {
		c.That(found[name], "tool_choice", "found the %.50s, want one of tools", name)
	}
	if choice.mode == choiceNone {
		all = nil
	}
	return all, shown, choice, c.Err
}

// chosenTool names a function or a custom tool: flat in /v1/responses, nested in chats.
type chosenTool struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
	Custom struct {
		Name string `json:"name"`
	} `json:"custom"`
}

// name returns the type and name of the function or custom tool, or "" for another kind of tool.
func (t *chosenTool) name() string {
	name := t.Name + t.Function.Name + t.Custom.Name
	if name == "" || t.Type != functionType && t.Type != customType {
		return ""
	}
	return t.Type + " " + name
}

// allowedTools are the functions that may be called: flat in /v1/responses, nested in chats.
type allowedTools struct {
	Mode  string       `json:"mode"`
	Tools []chosenTool `json:"tools"`
}

// readChoice reads tool_choice: a mode, a function, or allowed functions.
func (q *ToolRequest) readChoice() (toolChoice, error) {
	if len(q.Choice) == 0 || string(q.Choice) == "null" {
		return toolChoice{mode: choiceAuto}, nil
	}
	var one struct {
		chosenTool
		allowedTools
		Nested *allowedTools `json:"allowed_tools"`
	}
	if request.IsText(q.Choice) {
		var mode string
		if err := json.Unmarshal(q.Choice, &mode); err != nil {
			return toolChoice{}, request.Invalid("tool_choice", "%s", request.DescribeJSON(err))
		}
		if mode == choiceAuto || mode == choiceNone || mode == choiceRequired {
			return toolChoice{mode: mode}, nil
		}
	} else if json.Unmarshal(q.Choice, &one) == nil {
		if name := one.name(); name != "" {
			return toolChoice{choiceRequired, []string{name}}, nil
		}
		if one.Type == "allowed_tools" {
			return request.Or(one.Nested, one.allowedTools).choice()
		}
	}
	return toolChoice{}, request.Invalid("tool_choice", "found %s, want %s, %s, %s, a function or allowed_tools",
		request.Shorten(q.Choice), choiceAuto,
		choiceNone, choiceRequired)
}

// choice returns the tools that may be called.
func (a allowedTools) choice() (c toolChoice, err error) {
	c = toolChoice{a.Mode, []string{}}
	var ch request.Checks
	ch.That(a.Mode == choiceAuto || a.Mode == choiceRequired, "tool_choice",
		"allowed_tools: found the mode %.40q, want %s or %s", a.Mode, choiceAuto, choiceRequired)
	ch.That(len(a.Tools) > 0 && len(a.Tools) <= maxTools, "tool_choice",
		"allowed_tools: found %d, want 1 to %d functions", len(a.Tools), maxTools)
	for i := range a.Tools {
		name := a.Tools[i].name()
		ch.That(name != "", "tool_choice",
			"allowed_tools: %d: found the type %.40q and no function's name, want one", i, a.Tools[i].Type)
		c.named = append(c.named, name)
	}
	return c, ch.Err
}

// Chat has the settings of a chat request.
type Chat struct {
	Messages []Message
	Tools    ToolRequest
	Format   Format
	Param    string                     // of the format, for errors
	More     map[string]json.RawMessage // further variables of the template
	Continue bool                       // the last message is the start of the reply
	Mounts   Mounts
}

var UsesTools = regexp.MustCompile(`\btools\b`)

// writesCalls matches a template that writes the calls of earlier messages.
var writesCalls = regexp.MustCompile(`\btool_calls\b`)

// Converse creates the prompt of a chat and the rules for its replies.
func Converse(ctx context.Context, m *host.Model, param string, q *Chat) (*Dialog, error) {
	d, text, err := Compose(ctx, m, param, q)
	if err != nil {
		return nil, err
	}
	if d.IDs, err = m.Tokenizer.Encode(nil, []byte(text)); err != nil {
		return nil, request.Invalid(param, "%v", err)
	}
	d.Mounted = q.Mounts.End(m, text, d.IDs)
	return d, nil
}

// Compose creates the prompt as a text.
func Compose(ctx context.Context, m *host.Model, param string, q *Chat) (d *Dialog, text string, err error) {
	d = &Dialog{}
	var shown []json.RawMessage
	if d.tools, shown, d.choice, err = q.Tools.read(); err != nil {
		return nil, "", err
	}
	d.single = !request.Or(q.Tools.Parallel, true) || d.choice.one()
	if err := d.setForm(m); err != nil {
		return nil, "", err
	}
	in := template.Input{More: q.More}
	if len(d.tools) > 0 {
		in.Tools = shown
	}
	messages, begins, err := q.Beginning()
	if err != nil {
		return nil, "", err
	}
	for _, one := range messages {
		if d.Calls != nil && !writesCalls.MatchString(m.Settings.Source) {
			if calls := one.Calls(); len(calls) > 0 {
				one.Message = template.Text(host.AssistantRole, one.Content()+d.Calls.text(calls))
			}
		}
		in.Messages = append(in.Messages, one.Message)
	}
	if in.Messages, err = q.Mounts.before(ctx, m, in.Messages); err != nil {
		return nil, "", err
	}
	if len(d.tools) == 0 {
		d.Calls = nil
	}
	d.Input, d.begins = in, begins
	if text, err = m.Render(ctx, param, in); err != nil {
		return nil, "", err
	}
	text += begins
	return d, text, d.constrain(ctx, m, q.Param, q.Format, text)
}

// callPart returns the grammar of calls of the tools, or nil if they are unconstrained. perhaps reports whether text
// may replace or precede the calls.
func (d *Dialog) callPart() (part constrain.Part, perhaps bool) {
	if !d.choice.must() {
		strict := d.choice.named != nil
		for _, t := range d.tools {
			strict = strict || t.Function.Strict
		}
		if !strict {
			return nil, false
		}
	}
	var ways []constrain.Part
	for _, t := range d.tools {
		schema := t.Function.Parameters
		if !d.choice.must() && !t.Function.Strict {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		ways = append(ways, d.Calls.call(t.Function.Name, schema))
	}
	calls := d.Calls.all(constrain.Either(ways...), !d.single)
	if d.choice.must() {
		return constrain.Sequence(constrain.Space(), constrain.Literal(d.Calls.open), calls), false
	}
	return constrain.Sequence(constrain.Until(d.Calls.open, true), calls), true
}

// ToolCall is a call of a function, in responses and messages.
type ToolCall struct {
	Index    *int         `json:"index,omitempty"` // in a stream
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function FunctionCall `json:"function,omitzero"`
	Custom   *CustomCall  `json:"custom,omitempty"` // of a custom tool; Function is how the model sees it
}

type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

// newToolCall returns a function call with arguments in JSON.
func newToolCall(name string, arguments []byte) ToolCall {
	const length = 24
	return ToolCall{
		ID: "call_" + rand.Text()[:length], Type: functionType, Function: FunctionCall{name, string(arguments)},
	}
}

// Calls returns the function calls of a message.
func (m Message) Calls() (all []ToolCall) {
	var fields struct {
		Calls []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	data, err := json.Marshal(m.Message)
	if err != nil || json.Unmarshal(data, &fields) != nil {
		return nil // the other calls have been read
	}
	for _, c := range fields.Calls {
		one := ToolCall{ID: c.ID, Function: FunctionCall{c.Function.Name, string(c.Function.Arguments)}}
		if c.Type == customType {
			one = one.asCustom()
		}
		all = append(all, one)
	}
	return all
}

// readCalls reads the tool_calls of a message. Their arguments are an object, or its JSON in a string. Templates get an
// object, and a string as content.
func readCalls(fields map[string]json.RawMessage) error {
	var all []struct {
		ID       string      `json:"id"`
		Type     string      `json:"type"`
		Custom   *CustomCall `json:"custom"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(fields["tool_calls"], &all); err != nil {
		return errors.New("tool_calls: " + request.DescribeJSON(err))
	}
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	type call struct {
		ID       string   `json:"id,omitempty"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	calls := []call{}
	for _, c := range all {
		kind := functionType
		if c.Type == customType {
			kind = customType
		}
		if c.Type == customType && c.Custom != nil {
			one := NewCustomCall(c.ID, c.Custom.Name, c.Custom.Input).Function
			c.Function.Name, c.Function.Arguments = one.Name, []byte(one.Arguments)
		}
		arguments := []byte(c.Function.Arguments)
		if request.IsText(arguments) {
			var text string
			if err := json.Unmarshal(arguments, &text); err != nil {
				return err
			}
			arguments = []byte(text)
		}
		if arguments = bytes.TrimSpace(arguments); len(arguments) == 0 {
			arguments = []byte("{}")
		}
		if arguments[0] != '{' || !json.Valid(arguments) {
			return errors.New("tool_calls: found the arguments " + request.Shorten(arguments) + ", want a JSON object")
		}
		calls = append(calls, call{c.ID, kind, function{c.Function.Name, arguments}})
	}
	var err error
	if fields["tool_calls"], err = json.Marshal(calls); err != nil {
		return err
	}
	if content := fields["content"]; len(content) == 0 || string(content) == "null" {
		fields["content"] = json.RawMessage(`""`)
	}
	return nil
}
