package serve

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/hippo-ssm/hippo/session"
)

// embeddingRequest is the body of /v1/embeddings.
type embeddingRequest struct {
	Model      string  `json:"model"`
	Input      prompts `json:"input"`
	Format     string  `json:"encoding_format"`
	Dimensions *int    `json:"dimensions"`
}

// embeddingObject is the embedding of one text: a list of numbers, or the base64 of them as float32, the least byte
// first.
type embeddingObject struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

// embeddingUsage is what a request took.
type embeddingUsage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

func (s *Server) embeddings(c *call) error {
	var q embeddingRequest
	if err := s.readBody(c.w, c.r, &q); err != nil {
		return err
	}
	m, err := s.model(c, q.Model)
	if err != nil {
		return err
	}
	var ch checks
	ch.that(q.Format == "" || q.Format == "float" || q.Format == "base64", "encoding_format",
		"found %.40q, want float or base64", q.Format)
	ch.that(len(q.Input) > 0, "input", "found nothing, want %s", promptForms)
	if ch.err != nil {
		return ch.err
	}
	e := embedding{model: m, dimensions: q.Dimensions}
	if err := e.take(s, "input", q.Input, false); err != nil {
		return err
	}
	vectors, err := e.run(s, c)
	if err != nil {
		return err
	}
	answer := struct {
		Object string            `json:"object"`
		Data   []embeddingObject `json:"data"`
		Model  string            `json:"model"`
		Usage  embeddingUsage    `json:"usage"`
	}{Object: "list", Model: m.name, Usage: embeddingUsage{e.tokens, e.tokens}}
	for i, v := range vectors {
		o := embeddingObject{"embedding", i, v}
		if q.Format == "base64" {
			o.Embedding = base64Floats(v)
		}
		answer.Data = append(answer.Data, o)
	}
	return c.json(answer)
}

// base64Floats is numbers as clients of OpenAI ask for them.
func base64Floats(x []float32) string {
	data := make([]byte, 0, 4*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(data)
}

// embedding is texts that are to be embedded.
type embedding struct {
	model      *Model
	dimensions *int // nil for all
	texts      [][]int32
	tokens     int // of all texts
}

// take checks the texts of a field. Where cut is set, one that is longer than the model allows loses its end.
func (e *embedding) take(s *Server, param string, texts prompts, cut bool) error {
	m := e.model
	var ch checks
	d := or(e.dimensions, m.net.Config.DModel)
	ch.that(d >= 1 && d <= m.net.Config.DModel, "dimensions", "found %d, want 1 to %d, the size of the model's "+
		"hidden states", d, m.net.Config.DModel)
	ch.that(len(texts) <= s.o.MaxPrompts, param, "found %d texts, want at most %d", len(texts), s.o.MaxPrompts)
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
		if err := m.check(fmt.Sprintf("%s[%d]", param, i), ids, s.o.MaxPrompt, 0); err != nil {
			err.(*Error).Param = param
			return err
		}
		e.texts, e.tokens = append(e.texts, ids), e.tokens+len(ids)
	}
	return nil
}

// run embeds the texts.
func (e *embedding) run(s *Server, c *call) ([][]float32, error) {
	c.note("model", e.model.name)
	c.note("prompt_tokens", e.tokens)
	if err := s.enter(c); err != nil {
		return nil, err
	}
	defer s.admit.leave()
	return session.Embed(c.r.Context(), e.model.net, session.EmbedOptions{
		Runner: e.model.runner, Pooling: e.model.pooling, Dimensions: or(e.dimensions, 0), Client: c.client(),
	}, e.texts...)
}

// ollamaEmbedding is the body of /api/embed, and of /api/embeddings with a prompt.
type ollamaEmbedding struct {
	Model      string  `json:"model"`
	Input      prompts `json:"input"`
	Prompt     string  `json:"prompt"`
	Truncate   *bool   `json:"truncate"`
	Dimensions *int    `json:"dimensions"`

	Keep keepAlive `json:"keep_alive"`
}

// embed embeds one field of the request. Without a text it only loads the model.
func (q *ollamaEmbedding) embed(s *Server, c *call, param string) (*embedding, [][]float32, error) {
	m, err := s.model(c, q.Model)
	if err != nil {
		return nil, nil, err
	}
	s.keep(c, q.Keep)
	e := &embedding{model: m}
	if or(q.Dimensions, 0) != 0 { // which is all, as with the client's own type
		e.dimensions = q.Dimensions
	}
	if len(q.Input) == 1 && q.Input[0].ids == nil && q.Input[0].text == "" {
		q.Input = nil
	}
	if err := e.take(s, param, q.Input, or(q.Truncate, true)); err != nil || len(e.texts) == 0 {
		return e, [][]float32{}, err
	}
	vectors, err := e.run(s, c)
	return e, vectors, err
}

// ollamaEmbed answers /api/embed.
func (s *Server) ollamaEmbed(c *call) error {
	var q ollamaEmbedding
	if err := s.readBody(c.w, c.r, &q); err != nil {
		return err
	}
	e, vectors, err := q.embed(s, c, "input")
	if err != nil {
		return err
	}
	return c.json(struct {
		Model      string        `json:"model"`
		Embeddings [][]float32   `json:"embeddings"`
		Total      time.Duration `json:"total_duration"` // in nanoseconds
		Load       time.Duration `json:"load_duration"`
		Count      int           `json:"prompt_eval_count"`
	}{q.Model, vectors, time.Since(c.begun), c.load, e.tokens})
}

// ollamaEmbeddings answers /api/embeddings, which Ollama had before.
func (s *Server) ollamaEmbeddings(c *call) error {
	var q ollamaEmbedding
	if err := s.readBody(c.w, c.r, &q); err != nil {
		return err
	}
	q.Input = prompts{{text: q.Prompt}}
	_, vectors, err := q.embed(s, c, "prompt")
	if err != nil {
		return err
	}
	answer := map[string][]float32{"embedding": {}}
	if len(vectors) > 0 {
		answer["embedding"] = vectors[0]
	}
	return c.json(answer)
}
