package serve

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// ollamaModel is a model as Ollama lists it. It has no digest and no size: what is served was loaded before.
type ollamaModel struct {
	Name     string        `json:"name"`
	Model    string        `json:"model"`
	Modified time.Time     `json:"modified_at"`
	Digest   string        `json:"digest"`
	Size     int64         `json:"size"`
	Details  ollamaDetails `json:"details"`
}

type ollamaDetails struct {
	Format     string   `json:"format"`
	Family     string   `json:"family"`
	Families   []string `json:"families"`
	Parameters string   `json:"parameter_size"`
}

// ollama is the model as Ollama lists it.
func (m *Model) ollama() ollamaModel {
	return ollamaModel{
		Name: m.name, Model: m.name, Modified: m.made.UTC(), Digest: "",
		Details: ollamaDetails{
			Format: "hippo", Family: "hippo", Families: []string{"hippo"},
			Parameters: strconv.FormatFloat(float64(m.net.NumParams())/1e6, 'f', 1, 64) + "M",
		},
	}
}

// ollamaModels answers /api/tags and /api/ps: all models are there, and all are loaded.
func (s *Server) ollamaModels(c *call) error {
	list := struct {
		Models []ollamaModel `json:"models"`
	}{}
	for _, m := range s.models {
		list.Models = append(list.Models, m.ollama())
	}
	return c.json(list)
}

// ollamaShow answers /api/show.
func (s *Server) ollamaShow(c *call) error {
	var q struct {
		Model string `json:"model"`
		Name  string `json:"name"`
	}
	if err := s.readBody(c.w, c.r, &q); err != nil {
		return err
	}
	m, err := s.model(strings.TrimSuffix(cmp.Or(q.Model, q.Name), ":latest"))
	if err != nil {
		return err
	}
	return c.json(struct {
		Modified     time.Time      `json:"modified_at"`
		Template     string         `json:"template"`
		Parameters   string         `json:"parameters,omitempty"`
		Details      ollamaDetails  `json:"details"`
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
	}{m.made.UTC(), m.settings.Source, parameters(m.settings.Defaults), m.ollama().Details, map[string]any{
		"general.architecture": "hippo", "general.parameter_count": m.net.NumParams(),
		"hippo.context_length": m.net.MaxLength(), "hippo.embedding_length": m.net.Config.DModel,
		"hippo.layers": m.net.Config.Layers, "hippo.vocab_size": m.net.Config.VocabSize,
		"hippo.state_bytes": m.stateBytes(0), "hippo.state_bytes_per_token": m.stateBytes(1) - m.stateBytes(0),
	}, []string{"completion"}})
}

// ollamaVersion answers /api/version.
func (s *Server) ollamaVersion(c *call) error {
	return c.json(map[string]string{"version": s.o.Version})
}
