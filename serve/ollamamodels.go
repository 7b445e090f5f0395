package serve

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/session"
)

// ollamaModel is a model as Ollama lists it.
type ollamaModel struct {
	Name     string        `json:"name"`
	Model    string        `json:"model"`
	Modified time.Time     `json:"modified_at"`
	Digest   string        `json:"digest"`
	Size     int64         `json:"size"`
	Details  ollamaDetails `json:"details"`
}

type ollamaDetails struct {
	Parent     string   `json:"parent_model"`
	Format     string   `json:"format"`
	Family     string   `json:"family"`
	Families   []string `json:"families"`
	Parameters string   `json:"parameter_size"`
	Precision  string   `json:"quantization_level"`
}

// details are those of a model in Ollama's form.
func ollamaDetailsOf(info *ModelInfo) ollamaDetails {
	d := ollamaDetails{
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

// ollama is the model as Ollama lists it.
func ollamaModelOf(info *ModelInfo) ollamaModel {
	return ollamaModel{
		Name: info.Name, Model: info.Name, Modified: info.Modified.UTC(), Digest: info.Digest, Size: info.Bytes,
		Details: ollamaDetailsOf(info),
	}
}

// ollamaModels answers /api/tags: all models that there are.
func (s *ollamaHandler) ollamaModels(c *call) error {
	all, err := s.host.all(c.r.Context())
	if err != nil {
		return err
	}
	list := struct {
		Models []ollamaModel `json:"models"`
	}{[]ollamaModel{}}
	for _, info := range all {
		list.Models = append(list.Models, ollamaModelOf(&info))
	}
	return c.json(list)
}

// LoadedModel is a model that is loaded, as /api/ps lists it: in Ollama's form, and what only this server has.
type LoadedModel struct {
	ollamaModel
	Expires time.Time `json:"expires_at"` // centuries away for never
	VRAM    int64     `json:"size_vram"`
	Length  int       `json:"context_length"` // 0 for any

	Weights int64 `json:"weights_bytes"`
	Texts   int64 `json:"texts_bytes"` // of what it has read
	Marks   int   `json:"marks"`       // places in texts to go on from
	Uses    int   `json:"requests"`    // that use it
	Waiting int   `json:"requests_waiting"`
	Running int   `json:"sequences_running"` // texts that are being read and written
	Queued  int   `json:"sequences_waiting"` // for a step of the model
}

// Loaded is the answer of /api/ps: the models that are loaded, what was used last first, and those that are to be.
type Loaded struct {
	Models  []LoadedModel  `json:"models"`
	Loading []LoadingModel `json:"loading"`
}

// ollamaLoaded answers /api/ps.
func (s *ollamaHandler) ollamaLoaded(c *call) error {
	list := Loaded{[]LoadedModel{}, s.host.loading()}
	for _, l := range s.host.loaded() {
		m := LoadedModel{
			ollamaModel: ollamaModelOf(&l.ModelInfo), Expires: l.expires.UTC(), Length: l.model.net.MaxLength(),
			Weights: l.bytes, Uses: l.uses, Waiting: l.waiting,
		}
		if l.expires.IsZero() {
			const forever = 1<<63 - 1
			m.Expires = time.Now().Add(forever).UTC() // as Ollama has it
		}
		if l.model.texts != nil {
			texts := l.model.texts.Stats()
			m.Texts, m.Marks = texts.Memory, texts.Marks
		}
		if runner, ok := l.model.unwrapped().(*session.Scheduler); ok {
			figures := runner.Stats()
			m.Running, m.Queued = figures.Running, figures.Waiting
		}
		m.Size = m.Weights + m.Texts // in memory, where that of /api/tags is on the disk
		list.Models = append(list.Models, m)
	}
	return c.json(list)
}

// nameRequest is the body of a request about a model.
type nameRequest struct {
	Model    string `json:"model"`
	Name     string `json:"name"`
	Stream   *bool  `json:"stream"`
	Insecure bool   `json:"insecure"`
}

// readName reads it.
func (s *ollamaHandler) readName(c *call) (q nameRequest, err error) {
	if err = c.read(&q); err == nil {
		q.Model = cmp.Or(q.Model, q.Name)
	}
	return q, err
}

// ollamaShow answers /api/show. The model is not loaded for that.
func (s *ollamaHandler) ollamaShow(c *call) error {
	q, err := s.readName(c)
	if err != nil {
		return err
	}
	info, err := s.host.find(c.r.Context(), q.Model)
	if err != nil {
		return err
	}
	card, err := s.host.card(c.r.Context(), info)
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
	}{info.Modified.UTC(), card.Template, card.Sampling, ollamaDetailsOf(&info), map[string]any{
		"general.architecture": "hippo", "general.parameter_count": card.Parameters,
		"hippo.context_length": card.MaxLength, "hippo.embedding_length": card.DModel,
		"hippo.layers": card.Layers, "hippo.vocab_size": card.VocabSize,
		"hippo.state_bytes": card.StateBytes, "hippo.state_bytes_per_token": card.StateBytesPerToken,
	}, capabilities(card)})
}

// capabilities are what Ollama's clients ask about before they use a model. In what form it calls tools its tokenizer
// may be needed to tell: here its template says whether it knows any.
func capabilities(card ModelCard) []string {
	all := []string{"completion", "embedding"}
	if usesTools.MatchString(card.Template) {
		all = append(all, "tools")
	}
	if reasons(card.Template) {
		all = append(all, "thinking")
	}
	return all
}

// ollamaVersion answers /api/version.
func (s *ollamaHandler) ollamaVersion(c *call) error {
	return c.json(map[string]string{"version": s.version})
}

// ollamaHeartbeat answers HEAD /, by which Ollama's clients find out whether there is a server.
func (s *ollamaHandler) ollamaHeartbeat(c *call) error {
	return c.send(http.StatusOK, "text/plain; charset=utf-8", nil)
}
