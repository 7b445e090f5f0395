package anthropic

import (
	"encoding/json"
	"slices"

	"github.com/hippo-ssm/hippo/serve/request"
)

// tool is a function that the model may call.
type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict"`
	Defer       bool            `json:"defer_loading"`
	Callers     []string        `json:"allowed_callers"`
	Examples    json.RawMessage `json:"input_examples"`
	Cache       *cacheControl   `json:"cache_control"`
}

// functions returns the tools in the form that templates expect.
func (q *conversation) functions() (all []json.RawMessage, err error) {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict,omitempty"`
	}
	for i, raw := range q.Tools {
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, request.Invalid("tools", "element %d: %s", i, request.DescribeJSON(err))
		}
		var c request.Checks
		c.That(t.Type == "" || t.Type == "custom", "tools",
			"element %d: found the type %.40q, want custom: this server runs no tools", i, t.Type)
		c.That(len(t.Schema) > 0, "tools", "element %d: input_schema: found none, want a JSON schema", i)
		c.That(!t.Defer, "tools", "element %d: defer_loading: found true, want false", i)
		c.That(len(t.Callers) == 0 || slices.Equal(t.Callers, []string{"direct"}), "tools",
			"element %d: allowed_callers: found %.40q, want direct", i, t.Callers)
		c.That(len(t.Examples) == 0 || string(t.Examples) == "null" || string(t.Examples) == "[]", "tools",
			"element %d: input_examples: found %s, want none, or a description that has them", i,
			request.Shorten(t.Examples))
		if c.Err != nil {
			return nil, c.Err
		}
		q.marked = q.marked || t.Cache != nil
		data, err := json.Marshal(struct {
			Type     string   `json:"type"`
			Function function `json:"function"`
		}{"function", function{t.Name, t.Description, t.Schema, t.Strict}})
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// toolChoice selects whether the model calls tools.
type toolChoice struct {
	Type string `json:"type"`
	Name string `json:"name"`
	One  bool   `json:"disable_parallel_tool_use"`
}

// mode returns the choice in the form of package reply.
func (t *toolChoice) mode() (json.RawMessage, error) {
	switch {
	case t.Type == "" && t.Name == "":
		return nil, nil
	case t.Type == "auto", t.Type == "none":
		return request.JSON(t.Type), nil
	case t.Type == "any":
		return request.JSON("required"), nil
	case t.Type == "tool" && t.Name != "":
		return request.JSON(map[string]string{"type": "function", "name": t.Name}), nil
	}
	return nil, request.Invalid("tool_choice", "found the type %.40q and the name %.40q, want auto, any, none, or "+
		"tool and a name", t.Type, t.Name)
}
