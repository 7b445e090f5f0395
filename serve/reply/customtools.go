package reply

import (
	"encoding/json"

	"github.com/hippo-ssm/hippo/serve/request"
)

// A custom tool takes a text, of any form or of a grammar. Templates know functions only, so the model sees a custom
// tool as a function with one argument, the text, which its schema constrains.

// Types of tools and of their calls.
const (
	functionType = "function"
	customType   = "custom"
)

// customInput is the name of that argument.
const customInput = "input"

// customTool is a custom tool.
type customTool struct {
	Name        string          `json:"name"`
	Description json.RawMessage `json:"description"`
	Format      customFormat    `json:"format"`
}

// customFormat is the required format of a custom tool's text: flat in /v1/responses, nested in chats.
type customFormat struct {
	Type string `json:"type"`
	customGrammar
	Nested *customGrammar `json:"grammar"`
}

type customGrammar struct {
	Syntax     string `json:"syntax"`
	Definition string `json:"definition"`
}

// schema returns the schema of the text. at is the tool's index.
func (f *customFormat) schema(at int) (map[string]string, error) {
	s := map[string]string{"type": "string"}
	g := request.Or(f.Nested, f.customGrammar)
	switch {
	case f.Type == "" || f.Type == formatText:
	case f.Type != "grammar":
		return nil, request.Invalid("tools", "element %d: format: found the type %.40q, want text or grammar", at,
			f.Type)
	case g.Syntax == "regex":
		s["pattern"] = "^(?:" + g.Definition + ")$"
	case g.Syntax == "lark" || g.Syntax == "gbnf":
		s["x-"+g.Syntax] = g.Definition
	default:
		return nil, request.Invalid("tools", "element %d: format: found the syntax %.40q, want lark, regex, or gbnf: "+
			"the rules of a grammar in the format of llama.cpp", at, g.Syntax)
	}
	return s, nil
}

// asFunction turns a custom tool into a function, and returns it as templates see it. at is the tool's index.
func (t *tool) asFunction(at int) (json.RawMessage, error) {
	text, err := t.Custom.Format.schema(at)
	if err != nil {
		return nil, err
	}
	f := &t.Function
	f.Name, f.Strict = t.Custom.Name, true
	if f.Parameters, err = json.Marshal(map[string]any{
		"type": "object", "properties": map[string]any{customInput: text}, "required": []string{customInput},
		"additionalProperties": false,
	}); err != nil {
		return nil, err
	}
	type function struct {
		Name        string          `json:"name"`
		Description json.RawMessage `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	return json.Marshal(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{functionType, function{f.Name, t.Custom.Description, f.Parameters}})
}

// CustomCall is a call of a custom tool.
type CustomCall struct {
	Name  string `json:"name"`
	Input string `json:"input"`
}

// NewCustomCall returns a call of a custom tool, including the call of the function that the model sees.
func NewCustomCall(id, name, input string) ToolCall {
	arguments := request.JSON(map[string]string{customInput: input})
	return ToolCall{
		ID: id, Type: customType, Function: FunctionCall{name, string(arguments)}, Custom: &CustomCall{name, input},
	}
}

// asCustom converts the call of a function to a call of the custom tool that it stands for.
func (c ToolCall) asCustom() ToolCall {
	var arguments map[string]json.RawMessage
	input := c.Function.Arguments
	if json.Unmarshal([]byte(input), &arguments) == nil {
		_ = json.Unmarshal(arguments[customInput], &input) // if the model wrote something else, input stays that text
	}
	c.Type, c.Custom = customType, &CustomCall{c.Function.Name, input}
	return c
}

// MarshalJSON omits the function from the call of a custom tool.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	type plain ToolCall
	if c.Custom != nil {
		c.Function = FunctionCall{}
	}
	return json.Marshal(plain(c))
}
