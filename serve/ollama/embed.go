package ollama

import (
	"time"

	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// embedRequest is the body of /api/embed, and of /api/embeddings with a prompt.
type embedRequest struct {
	Model      string          `json:"model"`
	Input      request.Prompts `json:"input"`
	Prompt     string          `json:"prompt"`
	Truncate   *bool           `json:"truncate"`
	Dimensions *int            `json:"dimensions"`

	Keep keepAlive `json:"keep_alive"`
}

// embed embeds one field of the request. Without a text it only loads the model.
func (q *embedRequest) embed(s *Handler, c *request.Call, param string) (*reply.Embedding, [][]float32, error) {
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return nil, nil, err
	}
	q.Keep.apply(c, s.Host, m)
	e := &reply.Embedding{Model: m}
	if request.Or(q.Dimensions, 0) != 0 { // the full length, as with the client's own type
		e.Dimensions = q.Dimensions
	}
	if len(q.Input) == 1 && q.Input[0].IDs == nil && q.Input[0].Text == "" {
		q.Input = nil
	}
	if err := e.Take(&s.Service, param, q.Input, request.Or(q.Truncate, true)); err != nil || len(e.Texts) == 0 {
		return e, [][]float32{}, err
	}
	vectors, err := e.Run(&s.Service, c)
	return e, vectors, err
}

// Embed responds to /api/embed.
func (s *Handler) Embed(c *request.Call) error {
	var q embedRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.Prompt != "" {
		return request.Invalid("prompt", "found a text, want input: prompt is for /api/embeddings")
	}
	e, vectors, err := q.embed(s, c, "input")
	if err != nil {
		return err
	}
	return c.JSON(struct {
		Model      string        `json:"model"`
		Embeddings [][]float32   `json:"embeddings"`
		Total      time.Duration `json:"total_duration"` // in nanoseconds
		Load       time.Duration `json:"load_duration"`
		Count      int           `json:"prompt_eval_count"`
	}{q.Model, vectors, time.Since(c.Begun), c.Load, e.Tokens})
}

// Embeddings responds to /api/embeddings, Ollama's earlier endpoint.
func (s *Handler) Embeddings(c *request.Call) error {
	var q embedRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if len(q.Input) > 0 {
		return request.Invalid("input", "found %d texts, want prompt: input is for /api/embed", len(q.Input))
	}
	q.Input = request.Prompts{{Text: q.Prompt}}
	_, vectors, err := q.embed(s, c, "prompt")
	if err != nil {
		return err
	}
	response := map[string][]float32{"embedding": {}}
	if len(vectors) > 0 {
		response["embedding"] = vectors[0]
	}
	return c.JSON(response)
}
