package reply

import (
	"fmt"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// Embedding is a request for embeddings of texts.
type Embedding struct {
	Model      *host.Model
	Dimensions *int // nil for all
	Texts      [][]int32
	Tokens     int // of all texts
}

// Take checks the texts of a field. With cut, it truncates texts that are too long for the model.
func (e *Embedding) Take(s *Service, param string, texts request.Prompts, cut bool) error {
	m := e.Model
	var ch request.Checks
	d := request.Or(e.Dimensions, m.Net.Config.DModel)
	ch.That(d >= 1 && d <= m.Net.Config.DModel, "dimensions", "found %d, want 1 to %d, the size of the model's "+
		"hidden states", d, m.Net.Config.DModel)
	ch.That(len(texts) <= s.Limits.MaxPrompts, param, "found %d texts, want at most %d", len(texts),
		s.Limits.MaxPrompts)
	if ch.Err != nil {
		return ch.Err
	}
	for i, p := range texts {
		ids, err := m.EncodeField(param, p)
		if err != nil {
			return err
		}
		if most := m.Net.MaxLength(); cut && most > 0 && len(ids) > most {
			ids = ids[:most]
		}
		if err := m.Check(fmt.Sprintf("%s[%d]", param, i), ids, s.Limits.MaxPrompt, 0); err != nil {
			err.(*request.Error).Param = param
			return err
		}
		e.Texts, e.Tokens = append(e.Texts, ids), e.Tokens+len(ids)
	}
	return nil
}

// Run embeds the texts.
func (e *Embedding) Run(s *Service, c *request.Call) ([][]float32, error) {
	c.Note("model", e.Model.Name)
	c.Note("prompt_tokens", e.Tokens)
	if err := c.Enter(s.Admit); err != nil {
		return nil, err
	}
	defer c.Leave(s.Admit)
	return session.Embed(c.Request.Context(), e.Model.Net, session.EmbedOptions{
		Runner: e.Model.Runner, Pooling: e.Model.Pooling, Dimensions: request.Or(e.Dimensions, 0), Client: c.Client(),
	}, e.Texts...)
}
