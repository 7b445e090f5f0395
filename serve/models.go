package serve

// openaiModels responds with what models there are.
type openaiModels struct {
	host   *registry
	others []modelObject // that are no language models
}

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
func objectOf(info ModelInfo, loaded []loadedModel) modelObject {
	o := modelObject{ID: info.Name, Object: "model", Created: info.Modified.Unix(), OwnedBy: "hippo"}
	for _, l := range loaded {
		if l.Name == info.Name {
			o.Loaded, o.MaxLength = true, l.model.net.MaxLength()
		}
	}
	return o
}

func (s *openaiModels) listModels(c *call) error {
	all, err := s.host.all(c.r.Context())
	if err != nil {
		return err
	}
	list := struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{"list", []modelObject{}}
	loaded := s.host.loaded()
	for _, info := range all {
		list.Data = append(list.Data, objectOf(info, loaded))
	}
	list.Data = append(list.Data, s.others...)
	return c.json(list)
}

func (s *openaiModels) showModel(c *call) error {
	name := c.r.PathValue("name")
	for _, other := range s.others {
		if other.ID == name {
			return c.json(other)
		}
	}
	info, err := s.host.find(c.r.Context(), name)
	if err != nil {
		return err
	}
	return c.json(objectOf(info, s.host.loaded()))
}
