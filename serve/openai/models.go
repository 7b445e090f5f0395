package openai

import (
	"time"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Models responds with the list of models.
type Models struct {
	Host   *host.Host
	Others []Model // predictors
}

// Model is the description of a model in OpenAI's and Anthropic's APIs, with a field that reports whether it is loaded.
type Model struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Created   int64  `json:"created"`
	OwnedBy   string `json:"owned_by"`
	MaxLength int    `json:"max_model_len,omitempty"` // set for a loaded model
	Loaded    bool   `json:"loaded"`
	Predict   any    `json:"predict,omitempty"` // description of a Predictor

	Type        string    `json:"type"` // this and the following fields are Anthropic's
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
}

// NewModel returns the description of a model with a name and date.
func NewModel(name string, created time.Time) Model {
	return Model{
		ID: name, Object: "model", Created: created.Unix(), OwnedBy: "hippo", Type: "model", DisplayName: name,
		CreatedAt: created.UTC().Truncate(time.Second),
	}
}

// objectOf returns the description of a model.
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
	First  string  `json:"first_id"` // this and the following fields are Anthropic's
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
