package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

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

// constraints are those of a model that were used last.
type constraints struct {
	mu         sync.Mutex
	vocabulary *constrain.Vocabulary
	known      map[string]*constrain.Constraint
	order      []string // the oldest first
}

// compiling has room for the grammars that are compiled at a time, each of which may take some ten megabytes meanwhile.
var compiling = make(chan struct{}, 2)

// maxConstraints is how many constraints a model keeps. Each holds some megabytes at most.
const maxConstraints = 16

// constraint is the constraint of a grammar. What has the same key is the same grammar.
func (m *Model) constraint(ctx context.Context, param, key string,
	part constrain.Part) (*constrain.Constraint, error) {
	all := &m.constraints
	if known := all.use(key); known != nil {
		return known, nil
	}
	select {
	case compiling <- struct{}{}:
		defer func() { <-compiling }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if known := all.use(key); known != nil { // another request wanted the same
		return known, nil
	}
	grammar, err := constrain.Compile(part)
	if err != nil {
		return nil, wrong(param, "%v", err)
	}
	made, err := constrain.New(grammar, m.tok, all.of(m))
	if err != nil {
		return nil, wrong(param, "%v", err)
	}
	all.add(key, made)
	return made, nil
}

// use is the constraint with a key, nil if it is not kept.
func (c *constraints) use(key string) *constrain.Constraint {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.known[key]
	if found != nil {
		c.order = append(slices.DeleteFunc(c.order, func(k string) bool { return k == key }), key)
	}
	return found
}

func (c *constraints) add(key string, made *constrain.Constraint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]*constrain.Constraint{}
	}
	if c.known[key] == nil {
		c.order = append(c.order, key)
	}
	c.known[key] = made
	if len(c.order) > maxConstraints {
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
}

// of is the vocabulary of a model, made when it is first used.
func (c *constraints) of(m *Model) *constrain.Vocabulary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vocabulary == nil {
		c.vocabulary = constrain.NewVocabulary(m.tok, m.settings.EndIDs, markers()...)
	}
	return c.vocabulary
}

// format is the constraint of replies of a format, nil for any text. Errors name the parameter that the format is of.
func (m *Model) format(ctx context.Context, param string, f responseFormat) (*constrain.Constraint, error) {
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
				d.constraint, err = m.constraint(ctx, param, key, part)
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
	d.constraint, err = m.constraint(ctx, param, key, part)
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
