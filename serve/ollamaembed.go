package serve

import "time"

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
func (q *ollamaEmbedding) embed(s *ollamaHandler, c *call, param string) (*embedding, [][]float32, error) {
	m, err := s.host.model(c, q.Model)
	if err != nil {
		return nil, nil, err
	}
	q.Keep.apply(s.host, m)
	e := &embedding{model: m}
	if or(q.Dimensions, 0) != 0 { // which is all, as with the client's own type
		e.dimensions = q.Dimensions
	}
	if len(q.Input) == 1 && q.Input[0].ids == nil && q.Input[0].text == "" {
		q.Input = nil
	}
	if err := e.take(&s.service, param, q.Input, or(q.Truncate, true)); err != nil || len(e.texts) == 0 {
		return e, [][]float32{}, err
	}
	vectors, err := e.run(&s.service, c)
	return e, vectors, err
}

// ollamaEmbed answers /api/embed.
func (s *ollamaHandler) ollamaEmbed(c *call) error {
	var q ollamaEmbedding
	if err := c.read(&q); err != nil {
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
func (s *ollamaHandler) ollamaEmbeddings(c *call) error {
	var q ollamaEmbedding
	if err := c.read(&q); err != nil {
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
