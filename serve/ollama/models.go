package ollama

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// model is a model as Ollama lists it.
type model struct {
	Name     string    `json:"name"`
	Model    string    `json:"model"`
	Modified time.Time `json:"modified_at"`
	Digest   string    `json:"digest"`
	Size     int64     `json:"size"`
	Details  Details   `json:"details"`
}

type Details struct {
	Parent     string   `json:"parent_model"`
	Format     string   `json:"format"`
	Family     string   `json:"family"`
	Families   []string `json:"families"`
	Parameters string   `json:"parameter_size"`
	Precision  string   `json:"quantization_level"`
}

// detailsOf returns the details of a model in Ollama's form.
func detailsOf(info *host.ModelInfo) Details {
	d := Details{
		Format: cmp.Or(info.Format, "hippo"), Family: cmp.Or(info.Family, "hippo"), Precision: info.Precision,
	}
	d.Families = []string{d.Family}
	const million, billion = 1e6, 1e9
	switch n := float64(info.Parameters); {
	case n >= billion:
		d.Parameters = strconv.FormatFloat(n/billion, 'f', 1, 64) + "B"
	case n > 0:
		d.Parameters = strconv.FormatFloat(n/million, 'f', 1, 64) + "M"
	}
	return d
}

// modelOf returns the description of a model in Ollama's form.
func modelOf(info *host.ModelInfo) model {
	return model{
		Name: info.Name, Model: info.Name, Modified: info.Modified.UTC(), Digest: info.Digest, Size: info.Bytes,
		Details: detailsOf(info),
	}
}

// Models responds to /api/tags with all models.
func (s *Handler) Models(c *request.Call) error {
	all, err := s.Host.All(c.Request.Context())
	if err != nil {
		return err
	}
	list := struct {
		Models []model `json:"models"`
	}{[]model{}}
	for _, info := range all {
		list.Models = append(list.Models, modelOf(&info))
	}
	return c.JSON(list)
}

// LoadedModel describes a loaded model for /api/ps: Ollama's fields and additional ones.
type LoadedModel struct {
	model
	Expires time.Time `json:"expires_at"` // centuries away if the model stays loaded forever
	VRAM    int64     `json:"size_vram"`
	Length  int       `json:"context_length"` // maximum number of tokens of a text: see reply.Service

	Weights int64 `json:"weights_bytes"`
	Texts   int64 `json:"texts_bytes"` // of the prompt cache
	Marks   int   `json:"marks"`       // positions in texts from which to continue
	Uses    int   `json:"requests"`    // requests in flight
	Waiting int   `json:"requests_waiting"`
	Running int   `json:"sequences_running"` // texts being read or generated
	Queued  int   `json:"sequences_waiting"` // texts waiting for a step of the model
}

// Loaded is the response of /api/ps: the loaded models, the most recently used first, and those being loaded.
type Loaded struct {
	Models  []LoadedModel       `json:"models"`
	Loading []host.LoadingModel `json:"loading"`
}

// Loaded responds to /api/ps.
func (s *Handler) Loaded(c *request.Call) error {
	list := Loaded{[]LoadedModel{}, s.Host.Loading()}
	for _, l := range s.Host.Loaded() {
		m := LoadedModel{
			model: modelOf(&l.ModelInfo), Expires: l.Expires.UTC(), Length: s.ContextLength(l.Model.Net.MaxLength()),
			Weights: l.Bytes, Uses: l.Uses, Waiting: l.Waiting,
		}
		if l.Expires.IsZero() {
			const forever = 1<<63 - 1
			m.Expires = time.Now().Add(forever).UTC() // as Ollama does
		}
		if l.Model.Texts != nil {
			texts := l.Model.Texts.Stats()
			m.Texts, m.Marks = texts.Memory, texts.Marks
		}
		if runner, ok := l.Model.Scheduler().(*session.Scheduler); ok {
			figures := runner.Stats()
			m.Running, m.Queued = figures.Running, figures.Waiting
		}
		m.Size = m.Weights + m.Texts // in memory; /api/tags has the size on disk
		list.Models = append(list.Models, m)
	}
	return c.JSON(list)
}

// nameRequest is the body of a request about a model.
type nameRequest struct {
	Model    string `json:"model"`
	Name     string `json:"name"`
	Stream   *bool  `json:"stream"`
	Insecure bool   `json:"insecure"`
}

// readName reads the body.
func (s *Handler) readName(c *request.Call) (q nameRequest, err error) {
	if err = c.Read(&q); err == nil {
		q.Model = cmp.Or(q.Model, q.Name)
	}
	return q, err
}

// Show responds to /api/show. It does not load the model.
func (s *Handler) Show(c *request.Call) error {
	q, err := s.readName(c)
	if err != nil {
		return err
	}
	info, err := s.Host.Find(c.Request.Context(), q.Model)
	if err != nil {
		return err
	}
	card, err := s.Host.Card(c.Request.Context(), info)
	if err != nil {
		return err
	}
	return c.JSON(struct {
		Modified     time.Time      `json:"modified_at"`
		Template     string         `json:"template"`
		Parameters   string         `json:"parameters,omitempty"`
		Details      Details        `json:"details"`
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
	}{info.Modified.UTC(), card.Template, card.Sampling, detailsOf(&info), map[string]any{
		"general.architecture": "hippo", "general.parameter_count": card.Parameters,
		"hippo.context_length": s.ContextLength(card.MaxLength), "hippo.embedding_length": card.DModel,
		"hippo.layers": card.Layers, "hippo.vocab_size": card.VocabSize,
		"hippo.state_bytes": card.StateBytes, "hippo.state_bytes_per_token": card.StateBytesPerToken,
	}, capabilities(card)})
}

// capabilities returns the capabilities that Ollama's clients check before they use a model. Tools are listed if the
// template mentions them: their form may depend on the tokenizer, which is not loaded.
func capabilities(card host.ModelCard) []string {
	all := []string{"completion", "embedding"}
	if reply.UsesTools.MatchString(card.Template) {
		all = append(all, "tools")
	}
	if chat.HasReasoning(card.Template) {
		all = append(all, "thinking")
	}
	return all
}

// Version responds to /api/version.
func (s *Handler) Version(c *request.Call) error {
	return c.JSON(map[string]string{"version": s.Service.Version})
}

// Heartbeat responds to HEAD /, which Ollama's clients send to look for a server.
func (s *Handler) Heartbeat(c *request.Call) error {
	return c.Send(http.StatusOK, "text/plain; charset=utf-8", nil)
}
