package openai

import (
	"time"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Models responds with the list of models.
type Models struct {
	Host   *host.Host
	Others []Model // not language models
}

// Model is the description of a model that OpenAI and Anthropic have, and whether it is loaded.
type Model struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Created   int64  `json:"created"`
	OwnedBy   string `json:"owned_by"`
	MaxLength int    `json:"max_model_len,omitempty"` // of a loaded model
	Loaded    bool   `json:"loaded"`
	Predict   any    `json:"predict,omitempty"` // of a Predictor: its description

	Type        string    `json:"type"` // these are Anthropic's
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
}

// NewModel describes a model by its name and date.
func NewModel(name string, created time.Time) Model {
	return Model{
		ID: name, Object: "model", Created: created.Unix(), OwnedBy: "hippo", Type: "model", DisplayName: name,
		CreatedAt: created.UTC().Truncate(time.Second),
	}
}

// object describes a model.
func objectOf(info host.ModelInfo, loaded []host.Loaded) Model {
	o := NewModel(info.Name, info.Modified)
	for _, l := range loaded {
		if l.Name == info.Name {
			o.Loaded, o.MaxLength = true, l.Model.Net.MaxLength()
		}
	}
	return o
}

// modelList is a list of models.
type modelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
	First  string  `json:"first_id"` // these are Anthropic's
	Last   string  `json:"last_id"`
	More   bool    `json:"has_more"`
}

func (s *Models) List(c *request.Call) error {
	all, err := s.Host.All(c.Request.Context())
	if err != nil {
		return err
	}
	list := modelList{Object: "list", Data: []Model{}}
	loaded := s.Host.Loaded()
	for _, info := range all {
		list.Data = append(list.Data, objectOf(info, loaded))
	}
	list.Data = append(list.Data, s.Others...)
	if n := len(list.Data); n > 0 {
		list.First, list.Last = list.Data[0].ID, list.Data[n-1].ID
	}
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
