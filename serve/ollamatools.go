package serve

import (
	"encoding/json"
	"strings"
)

// ollamaCall is a call of a function as Ollama has it.
type ollamaCall struct {
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

func ollamaCalls(calls []toolCall) (all []ollamaCall) {
	for _, c := range calls {
		var one ollamaCall
		one.Function.Name, one.Function.Arguments = c.Function.Name, json.RawMessage(c.Function.Arguments)
		all = append(all, one)
	}
	return all
}

// format is what the reply is to be: "json", or what a schema describes.
func (q *ollamaRequest) format() (f responseFormat, err error) {
	switch text := string(q.Format); {
	case text == "" || text == `""` || text == "null":
	case text == `"json"`:
		f.Type = formatObject
	case strings.HasPrefix(text, "{"):
		f.Type, f.Schema = formatSchema, q.Format
	default:
		return f, wrong("format", `found %s, want "json" or a JSON schema`, shorten(q.Format))
	}
	return f, nil
}

// thinks are the variables of the template that say whether the model is to think before it replies.
func (q *ollamaReply) thinks() (map[string]json.RawMessage, error) {
	effort := ""
	switch text := string(q.Think); text {
	case "", "null":
		return nil, nil
	case "false":
		effort = "none"
	case "true":
		effort = "medium"
	case `"low"`, `"medium"`, `"high"`:
		effort = strings.Trim(text, `"`)
	default:
		return nil, wrong("think", `found %s, want true, false, "low", "medium" or "high"`, shorten(q.Think))
	}
	if effort != "none" && !reasons(q.job.model.settings.Source) {
		return nil, wrong("think", "found %s, want false: %s does not think before it replies", q.Think, q.job.model.name)
	}
	return withEffort(nil, effort), nil
}
