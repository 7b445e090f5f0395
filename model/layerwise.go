package model

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// Forward in pieces, for rows without states: Embed, then Layer of each layer or Rest of those from one on. What is the
// same before a layer need not be computed again.

// Embed maps the n token ids of all rows to the stream (n, d_model) that the first layer sees.
func (m *Model) Embed(t *autograd.Tape, ids []int32, r *Rows) *tensor.Tensor {
	if len(ids) != r.Total() {
		panic(fmt.Sprintf("model.Embed: %d ids for rows of %d positions", len(ids), r.Total()))
	}
	t.Scope("backbone.embeddings")
	return addPositions(t, m.Positions, m.Config.embed(t, m.Embedding, ids), &r.at)
}

// Layer maps the stream before layer i to the one behind it. first is the stream that Embed returned.
func (m *Model) Layer(t *autograd.Tape, i int, stream, first *tensor.Tensor, r *Rows) *tensor.Tensor {
	residual, hidden := m.Blocks[i].forward(t, nil, stream, first, r.of(i), 0)
	return t.Add(residual, hidden)
}

// Rest maps the stream before layer i to hidden states after the final norm. first is the stream that Embed returned.
func (m *Model) Rest(t *autograd.Tape, i int, stream, first *tensor.Tensor, r *Rows) *tensor.Tensor {
	return m.runFrom(t, i, stream, first, r, 0)
}
