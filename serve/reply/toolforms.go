package reply

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// callForm is the format in which a family of models writes function calls: between two marks, the second of which may
// be missing.
type callForm struct {
	open, close string
	style       callStyle
	tells       []string // texts in a template that identify the form
}

// callStyle is the syntax of calls between the marks.
type callStyle uint8

const (
	callObjects callStyle = iota // each call is an object with its own marks
	callList                     // a list of objects
	callPython                   // a list of calls in Python syntax: [f(a=1), g(b="x")]
	callTags                     // each call is in tags: <function=f><parameter=a>1</parameter></function>
	callLines                    // a call on each line in Python syntax with JSON constants: f(a=true)
	callMarked                   // each call has a mark, a name with a number, another mark, and an object
)

// callForms are the formats of the families. A format whose identifying texts include those of another comes first.
var callForms = []callForm{
	{"<|tool_call_start|>", "<|tool_call_end|>", callPython,
		[]string{"<|tool_call_start|>", "<|tool_list_start|>"}}, // LFM2
	{"<tool_call>", "</tool_call>", callTags, []string{"<function="}},                  // Nemotron 3, Qwen3.5
	{"<function_calls>", "</function_calls>", callLines, []string{"<function_calls>"}}, // Olmo 3, Olmo Hybrid
	{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", callMarked,
		[]string{"<|tool_calls_section_begin|>"}}, // Kimi
	{"<TOOLCALL>", "</TOOLCALL>", callList, []string{"<TOOLCALL>"}},       // Nemotron
	{"<tool_calls>", "</tool_calls>", callList, []string{"<tool_calls>"}}, // Jamba
	{"<|tool_call|>", "", callList, []string{"<|tool_call|>"}},            // Granite 3
	{"[TOOL_CALLS]", "", callList, []string{"[TOOL_CALLS]"}},              // Mistral
	{"<tool_call>", "</tool_call>", callObjects, []string{"<tool_call>"}}, // Granite 4, Falcon-H1, Qwen3, Qwen3-Next
}

// markers returns the marks that may be special tokens and still appear in replies.
func markers() []string {
	all := []string{chat.ThinkOpen, chat.ThinkClose, markedBegin, markedArguments, markedEnd}
	for _, f := range callForms {
		all = append(all, f.open)
		if f.close != "" {
			all = append(all, f.close)
		}
	}
	return all
}

// callFormOf returns the format in which a model calls functions, found in its template or its tokens, or nil.
func callFormOf(m *host.Model) *callForm {
	for i := range callForms {
		for _, tell := range callForms[i].tells {
			if strings.Contains(m.Settings.Source, tell) {
				return &callForms[i]
			}
		}
	}
	for i := range callForms {
		f := &callForms[i]
		if ids, err := m.Tokenizer.Encode(nil, []byte(f.open)); err == nil && len(ids) == 1 && f.style != callTags {
			return f
		}
	}
	return nil
}

// call returns the grammar of a function call without marks. schema constrains the arguments.
func (f *callForm) call(name string, schema json.RawMessage) constrain.Part {
	at := "tools." + name + ".parameters"
	switch f.style {
	case callPython, callLines:
		return constrain.Sequence(
			constrain.Literal(name+"("), constrain.Arguments(at, schema), constrain.Literal(")"))
	case callTags:
		return constrain.Sequence(constrain.Literal("<function="+name+">\n"),
			constrain.Tagged(at, schema, "</(parameter|function)>", func(property string) (begin, end string) {
				return "<parameter=" + property + ">\n", "\n</parameter>\n"
			}), constrain.Literal("</function>"))
	case callMarked:
		return constrain.Sequence(constrain.Literal(markedBegin+markedName+name+":"), constrain.Matching("[0-9]{1,3}"),
			constrain.Literal(markedArguments), constrain.Value(at, schema), constrain.Literal(markedEnd))
	}
	space := constrain.Either(constrain.Literal(""), constrain.Literal(" "))
	return constrain.Sequence(constrain.Literal(`{"name":`), space, constrain.Literal(quotedKey(name)+","), space,
		constrain.Literal(`"arguments":`), space, constrain.Value(at, schema), constrain.Literal("}"))
}

// all returns the grammar of one or more calls after the first mark.
func (f *callForm) all(call constrain.Part, several bool) constrain.Part {
	end := constrain.Literal(f.close)
	if f.style == callObjects || f.style == callTags {
		one := constrain.Sequence(constrain.Space(), call, constrain.Space(), end)
		if !several {
			return one
		}
		return constrain.Many(one, constrain.Sequence(constrain.Space(), constrain.Literal(f.open)))
	}
	between := constrain.Sequence(constrain.Literal(","), constrain.Space())
	switch f.style {
	case callLines:
		between = constrain.Literal("\n")
	case callMarked:
		between = constrain.Literal("")
	}
	if several {
		call = constrain.Many(call, between)
	}
	space := constrain.Space()
	if f.style == callLines || f.style == callMarked {
		return constrain.Sequence(space, call, space, end)
	}
	if f.style == callPython {
		space = constrain.Literal("")
	}
	return constrain.Sequence(space, constrain.Literal("["), space, call, space, constrain.Literal("]"), space, end)
}

// text returns calls in the model's format.
func (f *callForm) text(calls []ToolCall) string {
	var b strings.Builder
	var list []string
	for i, c := range calls {
		one := `{"name": ` + quotedKey(c.Function.Name) + `, "arguments": ` + c.Function.Arguments + "}"
		switch f.style {
		case callPython:
			one = c.Function.Name + "(" + pythonArguments(c.Function.Arguments, true) + ")"
		case callLines:
			one = c.Function.Name + "(" + pythonArguments(c.Function.Arguments, false) + ")"
		case callMarked:
			one = markedBegin + markedID(c, i) + markedArguments + c.Function.Arguments + markedEnd
		case callObjects, callTags:
			b.WriteString(f.open + "\n" + one + "\n" + f.close + "\n")
			continue
		}
		list = append(list, one)
	}
	switch {
	case list == nil:
	case f.style == callLines:
		b.WriteString(f.open + strings.Join(list, "\n") + f.close)
	case f.style == callMarked:
		b.WriteString(f.open + strings.Join(list, "") + f.close)
	default:
		b.WriteString(f.open + "[" + strings.Join(list, ", ") + "]" + f.close)
	}
	return b.String()
}

// errMore reports that the text of calls is incomplete.
var errMore = errors.New("the calls go on")

// read reads the calls at the start of a text, after the first mark, and returns the text after them. Unless last is
// set, the second mark must have arrived.
func (f *callForm) read(text string, tools []tool, last bool) (calls []ToolCall, rest string, err error) {
	begin := strings.NewReplacer(" ", "", "\n", "").Replace(text[:min(len(text), 8)])
	// Some models write JSON instead of Python.
	object := strings.HasPrefix(begin, "{") || strings.HasPrefix(begin, "[{")
	switch {
	case f.style == callPython && !object:
		calls, rest, err = readPython(text)
	case f.style == callTags && !object:
		calls, rest, err = readTags(text, tools)
	case f.style == callLines && !object:
		calls, rest, err = readLines(text, f.close, last)
	case f.style == callMarked && !object:
		calls, rest, err = readMarked(text)
	default:
		calls, rest, err = readObjects(text)
	}
	if err != nil {
		return nil, text, err
	}
	behind := strings.TrimLeft(rest, " \n")
	if after, ok := strings.CutPrefix(behind, f.close); ok {
		return calls, after, nil
	}
	if strings.HasPrefix(f.close, behind) && !last {
		return nil, text, errMore
	}
	return calls, rest, nil
}

// readObjects reads an object or a list of objects with a name and arguments.
func readObjects(text string) (calls []ToolCall, rest string, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if err := d.Decode(&raw); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, "", errMore
	} else if err != nil {
		return nil, "", err
	}
	rest = text[d.InputOffset():]
	list := []json.RawMessage{raw}
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, "", err
		}
	}
	for _, one := range list {
		var c struct {
			Name       string          `json:"name"`
			Arguments  json.RawMessage `json:"arguments"`
			Parameters json.RawMessage `json:"parameters"`
		}
		if err := json.Unmarshal(one, &c); err != nil || c.Name == "" {
			return nil, "", errors.New("found " + request.Shorten(one) + ", want an object with name and arguments")
		}
		if c.Arguments == nil {
			c.Arguments = c.Parameters
		}
		var text string
		if json.Unmarshal(c.Arguments, &text) == nil && request.IsText(c.Arguments) { // JSON in a string
			c.Arguments = json.RawMessage(text)
		}
		if c.Arguments = bytes.TrimSpace(c.Arguments); len(c.Arguments) == 0 || string(c.Arguments) == "null" {
			c.Arguments = json.RawMessage("{}")
		}
		if c.Arguments[0] != '{' || !json.Valid(c.Arguments) {
			return nil, "", errors.New("found the arguments " + request.Shorten(c.Arguments) + ", want an object")
		}
		calls = append(calls, newToolCall(c.Name, c.Arguments))
	}
	if len(calls) == 0 {
		return nil, "", errors.New("found no calls, want one")
	}
	return calls, rest, nil
}
