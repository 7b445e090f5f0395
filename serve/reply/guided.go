package reply

import (
	"encoding/json"

	"github.com/hippo-ssm/hippo/serve/request"
)

// Guided has the fields of completions and chats that constrain what a reply may be: OpenAI's, vLLM's and llama.cpp's.
type Guided struct {
	ResponseFormat Format            `json:"response_format"`
	JSON           json.RawMessage   `json:"guided_json"`
	Regex          string            `json:"guided_regex"`
	Choice         []string          `json:"guided_choice"`
	Rules          string            `json:"guided_grammar"`
	Grammar        string            `json:"grammar"` // the same, as llama.cpp calls it
	Outputs        structuredOutputs `json:"structured_outputs"`
	Schema         json.RawMessage   `json:"json_schema"`
}

// structuredOutputs are the fields guided_* under vLLM's later name.
type structuredOutputs struct {
	JSON    json.RawMessage `json:"json"`
	Regex   string          `json:"regex"`
	Choice  []string        `json:"choice"`
	Grammar string          `json:"grammar"`
	Object  bool            `json:"json_object"`
}

// Guide returns the required format of a reply and the field that has it. There may be one.
func (q *Guided) Guide() (f Format, param string, err error) {
	param = "response_format"
	if f = q.ResponseFormat; f.Type == formatText {
		f = Format{}
	}
	set := func(name, kind string, value any, there bool) {
		switch {
		case !there || err != nil:
		case f.Type != "":
			err = request.Invalid(name, "found it beside %s, want one of the two", param)
		default:
			param, f.Type = name, kind
			f.Schema, err = json.Marshal(value)
		}
	}
	schema := func(name string, raw json.RawMessage) {
		var text string // JSON in a string, as some clients of vLLM send it
		if json.Unmarshal(raw, &text) == nil && text != "" {
			raw = json.RawMessage(text)
		}
		if there := len(raw) > 0 && string(raw) != "null" && string(raw) != `""`; !there || json.Valid(raw) {
			set(name, FormatSchema, raw, there)
		} else if err == nil {
			err = request.Invalid(name, "found %s, want a JSON schema", request.Shorten(raw))
		}
	}
	o := &q.Outputs
	schema("guided_json", q.JSON)
	schema("json_schema", q.Schema)
	schema("structured_outputs.json", o.JSON)
	set("guided_regex", formatRegex, q.Regex, q.Regex != "")
	set("structured_outputs.regex", formatRegex, o.Regex, o.Regex != "")
	set("guided_choice", formatChoice, q.Choice, len(q.Choice) > 0)
	set("structured_outputs.choice", formatChoice, o.Choice, len(o.Choice) > 0)
	set("grammar", formatGrammar, q.Grammar, q.Grammar != "")
	set("guided_grammar", formatGrammar, q.Rules, q.Rules != "")
	set("structured_outputs.grammar", formatGrammar, o.Grammar, o.Grammar != "")
	set("structured_outputs.json_object", FormatObject, nil, o.Object)
	return f, param, err
}
