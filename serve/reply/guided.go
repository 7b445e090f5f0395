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

// Guide returns the required format of a reply and the name of the field that sets it. At most one field may be set.
func (q *Guided) Guide() (f Format, param string, err error) {
	param = "response_format"
	if f = q.ResponseFormat; f.Type == formatText {
		f = Format{}
	}
	set := func(name string, value Format, there bool) {
		switch {
		case !there || err != nil:
		case f.Type != "":
			err = request.Invalid(name, "found it beside %s, want one of the two", param)
		default:
			param, f = name, value
		}
	}
	pattern := func(name, text string) { set(name, Format{Type: formatRegex, Pattern: text}, text != "") }
	choice := func(name string, texts []string) {
		set(name, Format{Type: formatChoice, Choice: texts}, len(texts) > 0)
	}
	rules := func(name, text string) { set(name, Format{Type: formatGrammar, Grammar: text}, text != "") }
	schema := func(name string, raw json.RawMessage) {
		var text string // JSON in a string, as some clients of vLLM send it
		if json.Unmarshal(raw, &text) == nil && text != "" {
			raw = json.RawMessage(text)
		}
		if there := len(raw) > 0 && string(raw) != "null" && string(raw) != `""`; !there || json.Valid(raw) {
			set(name, Format{Type: FormatSchema, Schema: raw}, there)
		} else if err == nil {
			err = request.Invalid(name, "found %s, want a JSON schema", request.Shorten(raw))
		}
	}
	o := &q.Outputs
	schema("guided_json", q.JSON)
	schema("json_schema", q.Schema)
	schema("structured_outputs.json", o.JSON)
	pattern("guided_regex", q.Regex)
	pattern("structured_outputs.regex", o.Regex)
	choice("guided_choice", q.Choice)
	choice("structured_outputs.choice", o.Choice)
	rules("grammar", q.Grammar)
	rules("guided_grammar", q.Rules)
	rules("structured_outputs.grammar", o.Grammar)
	set("structured_outputs.json_object", Format{Type: FormatObject}, o.Object)
	return f, param, err
}
