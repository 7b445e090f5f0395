package reply

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Format is the required format of a reply: response_format of chats, or text.format of responses, which contains the
// schema directly.
type Format struct {
	Type       string          `json:"type"`
	Pattern    string          `json:"pattern"` // of the type regex
	Grammar    string          `json:"grammar"` // of the type grammar
	Choice     []string        `json:"choice"`  // of the type choice
	Schema     json.RawMessage `json:"schema"`
	JSONSchema struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// The types of a Format.
const (
	formatText    = "text"
	FormatObject  = "json_object"
	FormatSchema  = "json_schema"
	formatRegex   = "regex"
	formatGrammar = "grammar"
	formatChoice  = "choice"
)

// part returns the grammar of the format, or nil for any text.
func (f *Format) part(param string) (constrain.Part, error) {
	switch f.Type {
	case "", formatText:
		return nil, nil
	case formatRegex:
		if f.Pattern == "" {
			return nil, request.Invalid(param, "found regex without a pattern, want one")
		}
		return constrain.Matching(f.Pattern), nil
	case formatGrammar:
		if f.Grammar == "" {
			return nil, request.Invalid(param, "found grammar without a grammar, want one")
		}
		return constrain.Rules(f.Grammar), nil
	case formatChoice:
		return constrain.OneOf(f.Choice), nil
	case FormatObject:
		if len(f.Schema) > 0 && string(f.Schema) != "null" { // as in llama.cpp
			return jsonPart(f.Schema), nil
		}
		return jsonPart(json.RawMessage(`{"type":"object"}`)), nil
	case FormatSchema:
		schema := f.Schema
		if len(f.JSONSchema.Schema) > 0 {
			schema = f.JSONSchema.Schema
		}
		if len(schema) == 0 {
			return nil, request.Invalid(param, "found json_schema without a schema, want one")
		}
		return jsonPart(schema), nil
	}
	return nil, request.Invalid(param, "found the type %.40q, want %s, %s, %s, %s, %s or %s", f.Type, formatText,
		FormatObject, FormatSchema, formatRegex, formatGrammar, formatChoice)
}

func jsonPart(schema json.RawMessage) constrain.Part {
	return constrain.Sequence(constrain.Space(), constrain.Value("", schema))
}

// FormatConstraint returns the constraint of replies of a format, or nil for any text. Errors name the parameter param.
func FormatConstraint(ctx context.Context, m *host.Model, param string, f Format) (*constrain.Constraint, error) {
	d := &Dialog{}
	err := d.constrain(ctx, m, param, f, "")
	return d.Constraint, err
}

// Dialog is a chat as the model reads it, with the rules for its replies.
type Dialog struct {
	Input      template.Input // input of the template
	begins     string         // start of the reply, after the template's text
	IDs        []int32
	Mounted    int                   // number of ids of mounted texts: see Mounts.End
	Constraint *constrain.Constraint // of replies, or nil
	Calls      *callForm             // nil without tools
	tools      []tool
	choice     toolChoice
	single     bool          // a reply has at most one call
	Thinking   chat.Thinking // state of reasoning in which replies start
}

// MayThink reports whether replies may have reasoning.
func (d *Dialog) MayThink() bool { return d.Thinking != chat.Answers }

// constrain sets the constraint of replies to a prompt: a format, or calls of tools.
func (d *Dialog) constrain(ctx context.Context, m *host.Model, param string, f Format, prompt string) error {
	d.Thinking = chat.ThinkingAfter(m.Settings.Source, prompt)
	part, err := f.part(param)
	if err != nil {
		return err
	}
	key := quotedKey(f)
	if d.Calls != nil {
		called, perhaps := d.callPart()
		if called != nil && (part == nil || d.choice.must()) {
			part, param = called, "tools"
			key = fmt.Sprint(d.Calls.open, d.choice, d.single, quotedKey(d.tools))
			if perhaps {
				d.Constraint, err = m.Constraint(ctx, param, key, part, markers())
				return err
			}
		}
	}
	if part == nil {
		return nil
	}
	if d.Thinking.Begun() {
		key += chat.ThinkClose
		part = constrain.Sequence(constrain.Until(chat.ThinkClose, false), constrain.Space(), part)
	}
	d.Constraint, err = m.Constraint(ctx, param, key, part, markers())
	return err
}

// quotedKey encodes a part of a request as a cache key.
func quotedKey(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "" // not reached: it came as JSON
	}
	return string(data)
}
