package serve

import "fmt"

// modelObject is OpenAI's description of a model, and whether it is loaded.
type modelObject struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Created   int64  `json:"created"`
	OwnedBy   string `json:"owned_by"`
	MaxLength int    `json:"max_model_len,omitempty"` // of one that is loaded
	Loaded    bool   `json:"loaded"`
	Predict   any    `json:"predict,omitempty"` // of a Predictor: what it is about
}

// object describes a model.
func (s *Server) object(info ModelInfo, loaded []loadedModel) modelObject {
	o := modelObject{ID: info.Name, Object: "model", Created: info.Modified.Unix(), OwnedBy: "hippo"}
	for _, l := range loaded {
		if l.Name == info.Name {
			o.Loaded, o.MaxLength = true, l.model.net.MaxLength()
		}
	}
	return o
}

func (s *Server) listModels(c *call) error {
	all, err := s.models.all(c.r.Context())
	if err != nil {
		return err
	}
	list := struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{"list", []modelObject{}}
	loaded := s.models.loaded()
	for _, info := range all {
		list.Data = append(list.Data, s.object(info, loaded))
	}
	for i := range s.o.Predictors {
		list.Data = append(list.Data, s.o.Predictors[i].object())
	}
	return c.json(list)
}

func (s *Server) showModel(c *call) error {
	name := c.r.PathValue("name")
	if s.predicts(name) {
		p, err := s.predictor(name)
		if err != nil {
			return err
		}
		return c.json(p.object())
	}
	info, err := s.models.find(c.r.Context(), name)
	if err != nil {
		return err
	}
	return c.json(s.object(info, s.models.loaded()))
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
