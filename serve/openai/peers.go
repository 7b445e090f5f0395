package openai

import (
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// props is llama.cpp's description of a server and its model.
type props struct {
	Defaults propsDefaults `json:"default_generation_settings"`
	Slots    int           `json:"total_slots"`
	Alias    string        `json:"model_alias"`
	Path     string        `json:"model_path"` // the name, since clients do not see paths
	Template string        `json:"chat_template"`
	BOS      string        `json:"bos_token"`
	EOS      string        `json:"eos_token"`
	Modes    propsModes    `json:"modalities"`
	Build    string        `json:"build_info"`
}

type propsDefaults struct {
	Context int         `json:"n_ctx"`
	Params  propsParams `json:"params"`
}

type propsParams struct {
	Temperature   float64 `json:"temperature"`
	TopK          int     `json:"top_k"`
	TopP          float64 `json:"top_p"`
	MinP          float64 `json:"min_p"`
	RepeatPenalty float64 `json:"repeat_penalty"`
}

type propsModes struct {
	Vision bool `json:"vision"`
	Audio  bool `json:"audio"`
}

// Props responds to llama.cpp's /props with the model and its defaults.
func (s *Texts) Props(c *request.Call) error {
	m, err := s.Host.Model(c, c.Query("model"))
	if err != nil {
		return err
	}
	o := m.Defaults(0)
	if o.RepetitionPenalty == 0 {
		o.RepetitionPenalty = 1
	}
	return c.JSON(props{
		Defaults: propsDefaults{s.ContextLength(m.Net.MaxLength()), propsParams{
			o.Temperature, o.TopK, o.TopP, o.MinP, o.RepetitionPenalty,
		}},
		Slots: s.Places, Alias: m.Name, Path: m.Name, Template: m.Settings.Source, BOS: m.Settings.BOS, EOS: eosOf(m),
		Build: s.Version,
	})
}

// templateRequest is the body of /apply-template: the fields of a chat that determine its prompt.
type templateRequest struct {
	Model string `json:"model"`
	reply.Continued
	chatPrompt
	reply.Mounting
}

// ApplyTemplate responds to llama.cpp's /apply-template with the text of a chat up to the start of its reply.
func (s *Texts) ApplyTemplate(c *request.Call) error {
	var q templateRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	m, err := s.Host.Model(c, q.Model)
	if err == nil {
		err = q.Check()
	}
	if err != nil {
		return err
	}
	if len(q.Messages) == 0 {
		return request.Invalid("messages", "found none, want at least one")
	}
	mounts, err := s.Mounts(c, m, q.Mounting)
	if err != nil {
		return err
	}
	_, text, err := reply.Compose(c.Request.Context(), m, "messages", &reply.Chat{
		Messages: q.Messages, Tools: q.ToolRequest, More: reply.WithEffort(q.Variables, q.Effort), Continue: q.Continue,
		Mounts: mounts,
	})
	if err != nil {
		return err
	}
	return c.JSON(map[string]string{"prompt": text})
}
