// Package template renders the chat templates that come with models: Jinja2 as transformers runs it, with trim_blocks,
// lstrip_blocks, loop controls and the functions that it adds (tojson, raise_exception, strftime_now). Templates are
// stored in tokenizer_config.json, in chat_template.jinja or in a GGUF file. This package takes their text.
//
// A template is a program that anyone may have published. As in transformers' sandbox it cannot read files, include
// other templates, call Go, see the clock other than by strftime_now, or change values other than namespaces. Its work,
// its memory (see maxWork) and the depth of its nesting and calls are limited.
//
// Where the Python library and other implementations differ, this package follows Python: true prints as True, a list
// as ['a', 'b'], and the method items of a mapping takes precedence over its key "items".
package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// Template is a parsed chat template. It is safe for concurrent use.
type Template struct{ body []stmt }

// Input holds the variables with which a template is rendered.
type Input struct {
	Messages  []Message         // messages
	Tools     []json.RawMessage // tools: functions described by JSON schemas; empty if there are none
	Documents []json.RawMessage // documents; empty if there are none
	// AddGenerationPrompt asks for the start of a reply after the last message.
	AddGenerationPrompt bool   // add_generation_prompt
	BOS, EOS            string // bos_token, eos_token
	// More holds further variables, such as enable_thinking.
	More map[string]json.RawMessage
	Now  time.Time // time for strftime_now; if zero, the time of rendering
}

// Message is one message of a chat: a JSON object with a role, and content or tool_calls. Its keys keep their order.
type Message struct{ fields *dict }

// Text returns a message with role and content.
func Text(role, content string) Message {
	d := newDict()
	d.set("role", role)
	d.set("content", content)
	return Message{d}
}

// Thought returns a message with the reasoning before its content.
func Thought(role, reasoning, content string) Message {
	m := Text(role, content)
	m.fields.set("reasoning_content", reasoning)
	return m
}

// WithContent returns the message with other content.
func (m Message) WithContent(text string) Message {
	d := newDict()
	if m.fields != nil {
		for i, k := range m.fields.keys {
			d.set(k, m.fields.vals[i])
		}
	}
	d.set("content", text)
	return Message{d}
}

// Role returns the message's role: system, user, assistant, tool.
func (m Message) Role() string { return m.text("role") }

// Content returns the message's content if that is a text.
func (m Message) Content() string { return m.text("content") }

func (m Message) text(key string) string {
	if m.fields == nil {
		return ""
	}
	v, _ := m.fields.get(key)
	text, _ := v.(string)
	return text
}

// UnmarshalJSON reads a JSON object, which must have a role.
func (m *Message) UnmarshalJSON(data []byte) error {
	v, err := fromJSON(data)
	if err != nil {
		return err
	}
	d, ok := v.(*dict)
	if !ok {
		return fmt.Errorf("a message: found %.40s, want an object", data)
	}
	if m.fields = d; m.Role() == "" {
		return errors.New(`a message: found no "role", want a text such as "user"`)
	}
	return nil
}

// MarshalJSON writes the object that UnmarshalJSON reads.
func (m Message) MarshalJSON() ([]byte, error) {
	var text string
	err := fault.Catch(func() { text = (&run{work: maxWork}).json(m.fields, jsonStyle{item: ",", key: ":"}, 0) })
	return []byte(text), err
}

// Error reports a mistake in a template or in its use of the input.
type Error struct {
	Line   int    // of the template, from 1
	Text   string // the problem
	Raised bool   // raised by the template itself, with raise_exception, as it does not accept such a chat
}

// Error returns the problem and its line.
func (e *Error) Error() string {
	if e.Raised {
		return "chat template: " + e.Text
	}
	return fmt.Sprintf("chat template: line %d: %s", e.Line, e.Text)
}

// The limits of a template.
const (
	maxSource = 1 << 20 // bytes of a template; the largest published ones have about 30 KB
	maxDepth  = 100     // of nesting: blocks and expressions in the source, calls and values at run time
	maxChain  = 1000    // operators, filters, attributes in a row

	// maxWork limits the work of a rendering. A step costs stepWork. Each byte that is read or written costs 1, so the
	// limit bounds memory, too. inputWork is added to the limit for each byte of the input.
	maxWork   = 1 << 26
	stepWork  = 64
	itemWork  = 32  // an element of a list
	scopeWork = 512 // the variables of a loop, a macro or a block
	inputWork = 32
	maxRange  = 100_000 // elements of range(), as in Jinja's sandbox
)

// Parse parses a template.
func Parse(source string) (*Template, error) {
	t := &Template{}
	return t, fault.Catch(func() {
		if len(source) > maxSource {
			fail(1, "it has %d bytes, want at most %d", len(source), maxSource)
		}
		p := &parser{tokens: lex(source)}
		t.body, _ = p.body("")
	})
}

// Render renders a chat. It ends soon after ctx is done, with the error of ctx.
func (t *Template) Render(ctx context.Context, in Input) (string, error) {
	r := newRun(ctx, in)
	if err := in.fill(r); err != nil {
		return "", err
	}
	if err := fault.Catch(func() { r.block(t.body) }); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

func newRun(ctx context.Context, in Input) *run {
	r := &run{ctx: ctx, out: &strings.Builder{}, scope: newScope(globals), now: in.Now, work: maxWork}
	if r.now.IsZero() {
		r.now = time.Now()
	}
	return r
}

// fill sets the variables of a template.
func (in Input) fill(r *run) error {
	messages := &list{}
	for i, m := range in.Messages {
		if m.fields == nil {
			return fmt.Errorf("chat template: message %d: found nothing, want a role", i)
		}
		messages.items = append(messages.items, m.fields)
		r.work += inputWork * m.fields.size()
	}
	r.scope.vars = map[string]value{
		"messages": messages, "add_generation_prompt": in.AddGenerationPrompt, "bos_token": in.BOS, "eos_token": in.EOS,
		"tools": nil, "documents": nil,
	}
	set := func(name string, raw json.RawMessage) (value, error) {
		v, err := fromJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("chat template: %s: %w", name, err)
		}
		r.work += inputWork * len(raw)
		return v, nil
	}
	for name, raws := range map[string][]json.RawMessage{"tools": in.Tools, "documents": in.Documents} {
		if len(raws) == 0 {
			continue
		}
		l := &list{}
		for _, raw := range raws {
			v, err := set(name, raw)
			if err != nil {
				return err
			}
			l.items = append(l.items, v)
		}
		r.scope.vars[name] = l
	}
	for name, raw := range in.More {
		v, err := set(name, raw)
		if err != nil {
			return err
		}
		r.scope.vars[name] = v
	}
	return nil
}

// fail ends parsing or rendering with an *Error.
func fail(line int, format string, args ...any) {
	fault.Raise(&Error{Line: line, Text: fmt.Sprintf(format, args...)})
}
