package serve

import "fmt"

// modelObject is OpenAI's description of a model.
type modelObject struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Created   int64  `json:"created"`
	OwnedBy   string `json:"owned_by"`
	MaxLength int    `json:"max_model_len,omitempty"`
}

func (m *Model) object() modelObject {
	return modelObject{m.name, "model", m.made.Unix(), "hippo", m.net.MaxLength()}
}

func (s *Server) listModels(c *call) error {
	list := struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{Object: "list"}
	for _, m := range s.models {
		list.Data = append(list.Data, m.object())
	}
	return c.json(list)
}

func (s *Server) showModel(c *call) error {
	m, err := s.model(c.r.PathValue("name"))
	if err != nil {
		return err
	}
	return c.json(m.object())
}

// enter waits until the request may run. The admission's leave gives its place back.
func (s *Server) enter(c *call) error {
	if s.ends.Load() {
		return errDraining
	}
	if err := c.watch.enter(c.r.Context(), s.admit); err != nil {
		return fmt.Errorf("waiting for a place: %w", err)
	}
	return nil
}
