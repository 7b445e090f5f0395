package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"

	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// embeddingRequest is the body of /v1/embeddings.
type embeddingRequest struct {
	Model      string          `json:"model"`
	Input      request.Prompts `json:"input"`
	Format     string          `json:"encoding_format"`
	Dimensions *int            `json:"dimensions"`
	request.Ranked
}

// embeddingObject is the embedding of one text: a list of numbers, or the base64 of their little-endian float32 values.
type embeddingObject struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

// embeddings is the response of /v1/embeddings.
type embeddings struct {
	Object string            `json:"object"`
	Data   []embeddingObject `json:"data"`
	Model  string            `json:"model"`
	Usage  embeddingUsage    `json:"usage"`
}

// embeddingUsage counts the tokens of a request.
type embeddingUsage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

func (s *Texts) Embeddings(c *request.Call) error {
	var q embeddingRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	var ch request.Checks
	ch.That(q.Format == "" || q.Format == "float" || q.Format == "base64", "encoding_format",
		"found %.40q, want float or base64", q.Format)
	ch.That(len(q.Input) > 0, "input", "found nothing, want %s", request.PromptForms)
	if ch.Err != nil {
		return ch.Err
	}
	e := reply.Embedding{Model: m, Dimensions: q.Dimensions}
	if err := e.Take(&s.Service, "input", q.Input, false); err != nil {
		return err
	}
	vectors, err := e.Run(&s.Service, c)
	if err != nil {
		return err
	}
	response := embeddings{Object: "list", Model: m.Name, Usage: embeddingUsage{e.Tokens, e.Tokens}}
	for i, v := range vectors {
		o := embeddingObject{"embedding", i, v}
		if q.Format == "base64" {
			o.Embedding = base64Floats(v)
		}
		response.Data = append(response.Data, o)
	}
	return c.JSON(response)
}

// base64Floats encodes numbers in base64, as OpenAI's clients request.
func base64Floats(x []float32) string {
	data := make([]byte, 0, 4*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(data)
}
