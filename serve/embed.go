package serve

import (
	"fmt"

	"github.com/hippo-ssm/hippo/session"
)

// embedding is texts that are to be embedded.
type embedding struct {
	model      *Model
	dimensions *int // nil for all
	texts      [][]int32
	tokens     int // of all texts
}

// take checks the texts of a field. Where cut is set, one that is longer than the model allows loses its end.
func (e *embedding) take(s *service, param string, texts prompts, cut bool) error {
	m := e.model
	var ch checks
	d := or(e.dimensions, m.net.Config.DModel)
	ch.that(d >= 1 && d <= m.net.Config.DModel, "dimensions", "found %d, want 1 to %d, the size of the model's "+
		"hidden states", d, m.net.Config.DModel)
	ch.that(len(texts) <= s.limits.MaxPrompts, param, "found %d texts, want at most %d", len(texts), s.limits.MaxPrompts)
	if ch.err != nil {
		return ch.err
	}
	for i, p := range texts {
		ids, err := m.encodeField(param, p)
		if err != nil {
			return err
		}
		if most := m.net.MaxLength(); cut && most > 0 && len(ids) > most {
			ids = ids[:most]
		}
		if err := m.check(fmt.Sprintf("%s[%d]", param, i), ids, s.limits.MaxPrompt, 0); err != nil {
			err.(*Error).Param = param
			return err
		}
		e.texts, e.tokens = append(e.texts, ids), e.tokens+len(ids)
	}
	return nil
}

// run embeds the texts.
func (e *embedding) run(s *service, c *call) ([][]float32, error) {
	c.note("model", e.model.name)
	c.note("prompt_tokens", e.tokens)
	if err := c.enter(s.admit); err != nil {
		return nil, err
	}
	defer s.admit.leave()
	return session.Embed(c.r.Context(), e.model.net, session.EmbedOptions{
		Runner: e.model.runner, Pooling: e.model.pooling, Dimensions: or(e.dimensions, 0), Client: c.client(),
	}, e.texts...)
}
