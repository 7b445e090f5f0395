package reply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hippo-ssm/hippo/serve/request"
)

// readTags reads a call in tags. The value of a parameter is a string if the function's schema says so, or if it is not
// JSON.
func readTags(text string, tools []tool) (calls []ToolCall, rest string, err error) {
	const function, end = "<function=", "</function>"
	text = strings.TrimLeft(text, " \n")
	body, ok := strings.CutPrefix(text, function)
	if !ok {
		if strings.HasPrefix(function, text) {
			return nil, "", errMore
		}
		return nil, "", errors.New("found no " + function)
	}
	if body, rest, ok = strings.Cut(body, end); !ok {
		return nil, "", errMore
	}
	name, body, ok := strings.Cut(body, ">")
	if !ok || name == "" {
		return nil, "", errors.New("found a function without a name")
	}
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	for _, t := range tools {
		if t.Function.Name == name {
			// An invalid schema defines no types.
			_ = json.Unmarshal(t.Function.Parameters, &schema)
		}
	}
	var arguments []string
	for {
		_, after, ok := strings.Cut(body, "<parameter=")
		if !ok {
			break
		}
		value, next, _ := strings.Cut(after, "</parameter>")
		key, value, ok := strings.Cut(value, ">")
		if !ok {
			return nil, "", errors.New("found a parameter without a name")
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		if schema.Properties[key].Type == "string" || !json.Valid([]byte(value)) {
			value = quotedKey(value)
		}
		arguments = append(arguments, quotedKey(key)+": "+value)
		body = next
	}
	return []ToolCall{newToolCall(name, []byte("{"+strings.Join(arguments, ", ")+"}"))}, rest, nil
}

// readLines reads calls in Python syntax, one after another, up to the second mark.
func readLines(text, end string, last bool) (calls []ToolCall, rest string, err error) {
	for rest = text; ; {
		one, after, err := readPython(rest)
		if err != nil {
			return nil, "", err
		}
		calls, rest = append(calls, one...), strings.TrimLeft(after, " \n")
		switch {
		case strings.HasPrefix(rest, end) || last && rest == "":
			return calls, rest, nil
		case strings.HasPrefix(end, rest) && !last:
			return nil, "", errMore
		}
	}
}

// The marks of a numbered call, as Kimi K2 and Kimi Linear write it, and the prefix of its name.
const (
	markedBegin     = "<|tool_call_begin|>"
	markedArguments = "<|tool_call_argument_begin|>"
	markedEnd       = "<|tool_call_end|>"
	markedName      = "functions."
)

// markedID returns the numbered name of a call: its id if that fits the function, or else one numbered by its position.
func markedID(c ToolCall, place int) string {
	if name, ok := markedFunction(c.ID); ok && name == c.Function.Name {
		return c.ID
	}
	return fmt.Sprint(markedName, c.Function.Name, ":", place)
}

// markedFunction returns the function of a numbered name.
func markedFunction(id string) (name string, ok bool) {
	at := strings.LastIndexByte(id, ':')
	if at < 0 || strings.Trim(id[at+1:], "0123456789") != "" {
		return "", false
	}
	name = strings.TrimPrefix(id[:at], markedName)
	return name, ToolName.MatchString(name)
}

// readMarked reads calls that each have a mark, a numbered name, another mark, and an object. The numbered name becomes
// the id of the call, since the template repeats it before the result.
func readMarked(text string) (calls []ToolCall, rest string, err error) {
	for rest = text; ; {
		rest = strings.TrimLeft(rest, " \n")
		body, ok := strings.CutPrefix(rest, markedBegin)
		switch {
		case !ok && len(calls) > 0:
			return calls, rest, nil
		case !ok && strings.HasPrefix(markedBegin, rest):
			return nil, "", errMore
		case !ok:
			return nil, "", errors.New("found no " + markedBegin)
		}
		id, body, ok := strings.Cut(body, markedArguments)
		if !ok {
			return nil, "", errMore
		}
		name, ok := markedFunction(strings.TrimSpace(id))
		if !ok {
			return nil, "", errors.New("found the call " + request.Shorten([]byte(id)) + ", want functions.NAME:NUMBER")
		}
		d := json.NewDecoder(strings.NewReader(body))
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, "", errMore
		} else if err != nil {
			return nil, "", err
		}
		if raw = bytes.TrimSpace(raw); raw[0] != '{' {
			return nil, "", errors.New("found the arguments " + request.Shorten(raw) + ", want an object")
		}
		one := newToolCall(name, raw)
		one.ID = strings.TrimSpace(id)
		calls = append(calls, one)
		after := strings.TrimLeft(body[d.InputOffset():], " \n")
		if rest, ok = strings.CutPrefix(after, markedEnd); !ok {
			if strings.HasPrefix(markedEnd, after) {
				return nil, "", errMore
			}
			return nil, "", errors.New("found no " + markedEnd)
		}
	}
}
