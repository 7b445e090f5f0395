package ollama

import (
	"encoding/json"
	"strings"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// call is a function call in Ollama's form.
type call struct {
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

func callsOf(calls []reply.ToolCall) (all []call) {
	for _, c := range calls {
		var one call
		one.Function.Name, one.Function.Arguments = c.Function.Name, json.RawMessage(c.Function.Arguments)
		all = append(all, one)
	}
	return all
}

// format returns the required format of the reply: "json", or a schema.
func (q *chatRequest) format() (f reply.Format, err error) {
	switch text := string(q.Format); {
	case text == "" || text == `""` || text == "null":
	case text == `"json"`:
		f.Type = reply.FormatObject
	case strings.HasPrefix(text, "{"):
		f.Type, f.Schema = reply.FormatSchema, q.Format
	default:
		return f, request.Invalid("format", `found %s, want "json" or a JSON schema`, request.Shorten(q.Format))
	}
	return f, nil
}

// thinks returns the template variables that turn reasoning on or off.
func (q *chatJob) thinks() (map[string]json.RawMessage, error) {
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
		return nil, request.Invalid("think", `found %s, want true, false, "low", "medium" or "high"`,
			request.Shorten(q.Think))
	}
	if effort != "none" && !chat.HasReasoning(q.job.Model.Settings.Source) {
		return nil, request.Invalid("think", "found %s, want false: %s does not think before it replies", q.Think,
			q.job.Model.Name)
	}
	return reply.WithEffort(nil, effort), nil
}
