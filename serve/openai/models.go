package openai

import (
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Models responds with the list of models.
type Models struct {
	Host   *host.Host
	Others []Model // that are no language models
}

// Model is OpenAI's description of a model, and whether it is loaded.
type Model struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Created   int64  `json:"created"`
	OwnedBy   string `json:"owned_by"`
	MaxLength int    `json:"max_model_len,omitempty"` // of one that is loaded
	Loaded    bool   `json:"loaded"`
	Predict   any    `json:"predict,omitempty"` // of a Predictor: what it is about
}

// object describes a model.
func objectOf(info host.ModelInfo, loaded []host.Loaded) Model {
	o := Model{ID: info.Name, Object: "model", Created: info.Modified.Unix(), OwnedBy: "hippo"}
	for _, l := range loaded {
		if l.Name == info.Name {
			o.Loaded, o.MaxLength = true, l.Model.Net.MaxLength()
		}
	}
	return o
}

func (s *Models) List(c *request.Call) error {
	all, err := s.Host.All(c.Request.Context())
	if err != nil {
		return err
	}
	list := struct {
		Object string  `json:"object"`
		Data   []Model `json:"data"`
	}{"list", []Model{}}
	loaded := s.Host.Loaded()
	for _, info := range all {
		list.Data = append(list.Data, objectOf(info, loaded))
	}
	list.Data = append(list.Data, s.Others...)
	return c.JSON(list)
}

func (s *Models) Show(c *request.Call) error {
	name := c.Request.PathValue("name")
	for _, other := range s.Others {
		if other.ID == name {
			return c.JSON(other)
		}
	}
	info, err := s.Host.Find(c.Request.Context(), name)
	if err != nil {
		return err
	}
	return c.JSON(objectOf(info, s.Host.Loaded()))
}
