package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate/constrain"
)

// responseFormat is what a reply is to be: response_format of chats, or text.format of responses, which has the schema
// in itself.
type responseFormat struct {
	Type       string          `json:"type"`
	Schema     json.RawMessage `json:"schema"`
	JSONSchema struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// The types of a responseFormat.
const (
	formatText   = "text"
	formatObject = "json_object"
	formatSchema = "json_schema"
)

// part is the grammar of the format, nil for any text.
func (f *responseFormat) part(param string) (constrain.Part, error) {
	switch f.Type {
	case "", formatText:
		return nil, nil
	case formatObject:
		return jsonPart(json.RawMessage(`{"type":"object"}`)), nil
	case formatSchema:
		schema := f.Schema
		if len(f.JSONSchema.Schema) > 0 {
			schema = f.JSONSchema.Schema
		}
		if len(schema) == 0 {
			return nil, wrong(param, "found json_schema without a schema, want one")
		}
		return jsonPart(schema), nil
	}
	return nil, wrong(param, "found the type %.40q, want %s, %s or %s", f.Type, formatText, formatObject, formatSchema)
}

func jsonPart(schema json.RawMessage) constrain.Part {
	return constrain.Sequence(constrain.Space(), constrain.Value("", schema))
}

// format is the constraint of replies of a format, nil for any text. Errors name the parameter that the format is of.
func formatOf(ctx context.Context, m *Model, param string, f responseFormat) (*constrain.Constraint, error) {
	d := &dialog{}
	err := d.constrain(ctx, m, param, f, "")
	return d.constraint, err
}

// dialog is a chat as the model reads it, and how its replies are written and read.
type dialog struct {
	in         template.Input // what the template was given
	begins     string         // the beginning of the reply, behind the text of the template
	ids        []int32
	constraint *constrain.Constraint // of replies, nil for any
	calls      *callForm             // nil where there are no tools
	tools      []tool
	choice     toolChoice
	several    bool // a reply may have more than one call
	reasoning  bool // replies may begin with thoughts
	begun      bool // the prompt has begun them
}

// thoughts are the marks around what a model thinks before it replies.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// reasons reports whether a template has marks around thoughts.
func reasons(template string) bool { return strings.Contains(template, thinkOpen) }

// constrain sets what a reply behind a prompt may be: of a format, or calls of tools.
func (d *dialog) constrain(ctx context.Context, m *Model, param string, f responseFormat, prompt string) error {
	d.reasoning = reasons(m.settings.Source)
	d.begun = d.reasoning && strings.HasSuffix(strings.TrimSpace(prompt), thinkOpen)
	part, err := f.part(param)
	if err != nil {
		return err
	}
	key := quotedKey(f)
	if d.calls != nil {
		called, perhaps := d.callPart()
		if called != nil && (part == nil || d.choice.must()) {
			part, param = called, "tools"
			key = fmt.Sprint(d.calls.open, d.choice, d.several, quotedKey(d.tools))
			if perhaps {
				d.constraint, err = m.constraint(ctx, param, key, part, markers())
				return err
			}
		}
	}
	if part == nil {
		return nil
	}
	if d.begun {
		key += thinkClose
		part = constrain.Sequence(constrain.Until(thinkClose, false), constrain.Space(), part)
	}
	d.constraint, err = m.constraint(ctx, param, key, part, markers())
	return err
}

// quotedKey is a part of a request as a key.
func quotedKey(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "" // not of what came as JSON
	}
	return string(data)
}
